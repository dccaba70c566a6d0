"""What the views are made of: figures, names of devices, groups of columns, and parts of trees of scopes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from compiler.figures import count, size, size_of_known
from compiler.mapping.records import MapOp
from compiler.report import scopes
from compiler.report.devices import Totals, add_up, device_label, device_totals, first_that_fits
from compiler.report.scopes import cut, finder
from compiler.report.view import shorten
from tests.placement_maps import make_kinds, make_map


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (size(0), "."),
        (size(1023), "1023 B"),
        (size(1024), "1.00 KiB"),
        (size(1024 * 1024 - 1), "1024 KiB"),
        (size(25_600_000), "24.4 MiB"),
        (size(123 * 1024**3), "123 GiB"),
        (size(1024**6), "1024 PiB"),
        (count(0), "."),
        (count(1234567), "1,234,567"),
        (size_of_known(2048, 3), "2.00 KiB+"),
        (size_of_known(0, 0), "."),
        (shorten("conv2_block1_1_conv/kernel", 16), "conv2_b...kernel"),
        (shorten("abcdefgh", 8), "abcdefgh"),
        (shorten("abcdefgh", 7), "ab...gh"),
        (shorten("abcdefgh", 6), "ab...h"),
        (shorten("abcdefgh", 1), "a...h"),
    ],
)
def test_figures_and_names(text: str, wanted: str) -> None:
    """Bytes have three digits and a unit of 1024, thousands stand apart, long names keep both ends."""
    assert text == wanted


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["gpu[0]"], "gpu[0]"),
        (["gpu[3]", "gpu[0]", "gpu[1]"], "gpu[0..1,3]"),
        (["cpu[0]", "gpu[0]", "gpu[1]"], "cpu[0], gpu[0..1]"),
        ([f"worker[{t}].gpu[{i}]" for t in range(2) for i in range(4)], "worker[0..1].gpu[0..3]"),
        (["w[0].gpu[0]", "w[1].gpu[0]", "w[1].gpu[1]"], "w[0].gpu[0], w[1].gpu[0..1]"),
        (["/job:x/device:TPU:0", "gpu[0]"], "/job:x/device:TPU:0[0], gpu[0]"),
    ],
)
def test_labels_of_several_devices(names: list[str], label: str) -> None:
    """Several devices have one name, with ranges that include both ends, as in specs."""
    assert device_label(names) == label


@pytest.mark.parametrize(
    ("most", "figures", "titles"),
    [
        (8, str, None),
        (7, str, [f"{job}[{task}].gpu[0..1] (sum of 2)" for job in "ab" for task in range(2)]),
        (3, str, [f"{job}[0..1].gpu[0..1] (sum of 4)" for job in "ab"]),
        (1, str, [f"{job}[0..1].gpu[0..1] (sum of 4)" for job in "ab"]),
        (2, lambda _: 0, [f"{job}[0..1].gpu[0..1] (each of 4)" for job in "ab"]),
    ],
)
def test_grouping_goes_only_as_far_as_it_must(most: int, figures: Any, titles: list[str] | None) -> None:
    """Devices are shown one by one if there is room, then alike ones together, then sums by host and job."""
    devices = [f"{job}[{task}].gpu[{index}]" for job in "ab" for task in range(2) for index in range(2)]
    groups = first_that_fits(devices, figures, lambda found: len(found) <= most)
    assert [each.title for each in groups] == (titles or devices)


def test_figures_of_devices_are_sums() -> None:
    """In a map by kinds they are those of the records of each clone; busy shares have no sum."""
    kinds = make_kinds(3, 2)
    assert device_totals(kinds) == device_totals(kinds.expanded())
    one, other = Totals(1, 2, 3, 4, 5, 6, 7, 8, 0.5), Totals(10, 20, 30, None, 50, 60, 70, 80, 0.25)
    assert add_up([one, other]) == Totals(11, 22, 33, 4, 55, 66, 77, 88, None)
    assert add_up([other, other]).memory is None


def tree_of(ops: Iterable[MapOp]) -> scopes.Scope:
    """Return the tree of ops, counted by the device asked for."""
    return scopes.build(ops, lambda op: op.name, lambda op: op.requested)


def test_cutting_uses_all_of_the_limit_and_no_more() -> None:
    """Parts together hold every op, their keys stay within the limit, and every op is found in its part."""
    ops = make_map(4).ops
    root = tree_of(ops)
    inside = sum(len(part.counts) for part in cut(root, 20))
    for limit in (10, inside - 1, inside, 20, 40):
        parts = cut(root, limit)
        keys = sum(len(part.counts) for part in parts)
        assert keys <= limit
        assert (keys == inside) == (inside <= limit <= 20)
        find = finder(parts)
        held = {id(part): 0 for part in parts}
        for op in ops:
            part = find(op.name)
            assert part is not None
            held[id(part)] += 1
        assert [held[id(part)] for part in parts] == [part.counts.total() for part in parts]
        assert sum(held.values()) == len(ops)


def test_cutting_names_little_things_together() -> None:
    """A scope with more inside than there is room for shows what is large, and the rest under one name."""
    ops = [op for op in make_map(1).ops if op.role == "forward"] * 40
    small = [
        MapOp(f"Fill_{at}/dims", "Const", None, "init", "cpu[0]", None, op.rule)
        for at, op in enumerate(ops[:9])
    ]
    parts = cut(tree_of([*ops, *small]), 6)
    assert [(part.scope.path, part.counts.total()) for part in parts] == [
        ("conv1", 120),
        ("logits", 80),
        ("(9 others)", 9),
    ]
    assert finder(parts)("Fill_3/dims") is parts[2]
