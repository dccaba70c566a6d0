"""What the views are made of: figures, names of devices, trees of scopes, groups of columns."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from attrs import evolve

from compiler.figures import count, size, size_of_known
from compiler.mapping.records import MapOp, MapWorker, PlacementMap
from compiler.report import scopes
from compiler.report.devices import (
    Group,
    Totals,
    add_up,
    device_label,
    device_totals,
    first_that_fits,
    of_group,
)
from compiler.report.scopes import cut, finder
from compiler.report.view import View, shorten, table, width_of
from tests.placement_maps import make_kinds, make_map


def tree_of(ops: Iterable[MapOp]) -> scopes.Scope:
    """Return the tree of ops, counted by the device asked for."""
    return scopes.build(ops, lambda op: op.name, lambda op: op.requested)


def outermost(placement: PlacementMap) -> set[str]:
    """Return the outermost scopes of a map, in which equal clones are one."""
    named = scopes.folded(placement)
    return set(scopes.build(placement.counted(), named, lambda each: each.op.requested).children)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "."),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1024 * 1024 - 1, "1024 KiB"),
        (25_600_000, "24.4 MiB"),
        (123 * 1024**3, "123 GiB"),
        (1024**6, "1024 PiB"),
    ],
)
def test_sizes(number: int, text: str) -> None:
    """Bytes have three digits and a unit of 1024."""
    assert size(number) == text


def test_figures_that_say_more() -> None:
    """Thousands stand apart, zero is a dot, and a plus tells that something unknown comes on top."""
    assert [count(0), count(1234567), size_of_known(2048, 3), size_of_known(0, 0)] == [
        ".",
        "1,234,567",
        "2.00 KiB+",
        ".",
    ]


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (["gpu[0]"], "gpu[0]"),
        (["gpu[0]", "gpu[1]", "gpu[2]"], "gpu[0..2]"),
        (["gpu[3]", "gpu[0]", "gpu[1]"], "gpu[0..1,3]"),
        (["cpu[0]", "gpu[0]", "gpu[1]"], "cpu[0], gpu[0..1]"),
        ([f"worker[{t}].gpu[{i}]" for t in range(2) for i in range(4)], "worker[0..1].gpu[0..3]"),
        (
            ["worker[0].gpu[0]", "worker[1].gpu[0]", "worker[1].gpu[1]"],
            "worker[0].gpu[0], worker[1].gpu[0..1]",
        ),
        (["/job:x/device:TPU:0", "gpu[0]"], "/job:x/device:TPU:0[0], gpu[0]"),
    ],
)
def test_labels_of_several_devices(names: list[str], label: str) -> None:
    """Several devices have one name, with ranges that include both ends, as in specs."""
    assert device_label(names) == label


def test_scopes_count_what_is_inside() -> None:
    """A scope counts the ops in it and in its scopes, by device; an op that bears its name is not in it."""
    root = tree_of(make_map(1).ops)
    conv1 = root.children["conv1"]
    assert dict(conv1.counts) == {"cpu[0]": 3, "gpu[0]": 3}
    assert dict(conv1.own) == {"cpu[0]": 1, "gpu[0]": 3}
    assert dict(conv1.children["kernel"].counts) == {"cpu[0]": 2}
    assert (root.total, root.depth) == (16, 3)


def test_scopes_are_walked_from_the_outside_to_a_depth() -> None:
    """With their levels, and what is inside a scope right behind it."""
    root = scopes.build(["a/x", "a/b/y", "a/b/c/z", "d/w"], str, str)
    found = [[(level, each.name) for level, each in root.walk(depth)] for depth in range(4)]
    assert found == [
        [],
        [(0, "a"), (0, "d")],
        [(0, "a"), (1, "b"), (0, "d")],
        [(0, "a"), (1, "b"), (2, "c"), (0, "d")],
    ]


def test_figures_of_devices_are_sums_over_the_map() -> None:
    """What each sends and receives is that of its links, and in a map by kinds as in the records of each."""
    placement = make_map(3)
    totals = device_totals(placement)
    assert list(totals) == [each.ref for each in placement.devices]
    for device in placement.devices:
        found = totals[device.ref]
        assert (found.ops, found.variables, found.slots, found.memory) == (
            device.ops,
            device.variable_bytes,
            device.slot_bytes,
            device.memory_bytes,
        )
        sent = [each for each in placement.transfers if each.from_device == device.ref]
        taken = [each for each in placement.transfers if each.to_device == device.ref]
        assert (found.bytes_out, found.out_unknown) == (
            sum(each.bytes for each in sent),
            sum(each.bytes_unknown for each in sent),
        )
        assert (found.bytes_in, found.in_unknown) == (
            sum(each.bytes for each in taken),
            sum(each.bytes_unknown for each in taken),
        )
    kinds = make_kinds(3, 2)
    assert device_totals(kinds) == device_totals(kinds.expanded())


def test_figures_are_added_up_but_for_busy_shares() -> None:
    """Memory that was forecast of one is the sum; of a group of equal devices, those of one are shown."""
    one, other = Totals(1, 2, 3, 4, 5, 6, 7, 8, 0.5), Totals(10, 20, 30, None, 50, 60, 70, 80, 0.25)
    assert one + other == Totals(11, 22, 33, 4, 55, 66, 77, 88, None)
    assert add_up([other, other]).memory is None
    assert add_up([one, one]).memory == 8
    totals = {"a": one, "b": other}
    assert of_group(Group("ab", ("a", "b"), "sum"), totals) == one + other
    assert of_group(Group("ab", ("a", "b"), "each"), totals) == one


def test_clones_alike_share_a_name() -> None:
    """From five clones on, those with the same ops inside are filed under one name; fewer stay apart."""
    five = make_map(5)
    assert outermost(five) >= {"clone_0..4"}
    four = make_map(4)
    assert outermost(four) >= {"clone_0", "clone_3"}


def test_clones_of_other_workers_have_no_share_in_the_names_of_the_first() -> None:
    """Each worker's graph begins with `clone_0`, and only that of the first is listed."""
    first = make_map(5)
    others = tuple(evolve(each, index=each.index + 5) for each in first.clones)
    workers = (
        MapWorker("worker:0", tuple(range(5)), True),
        MapWorker("worker:1", tuple(range(5, 10)), False),
    )
    both = evolve(first, clones=(*first.clones, *others), workers=workers)
    names = outermost(both)
    assert {each for each in names if each.startswith("clone")} == {"clone_0..4"}


def test_a_clone_of_its_own_kind_stays_apart() -> None:
    """A clone that has ops which the others lack is not taken together with them."""
    whole = make_map(5)
    odd = tuple(op for op in whole.ops if op.name != "clone_2/conv1/Relu")
    lacking = evolve(whole, ops=odd)
    names = outermost(lacking)
    assert {"clone_0..1,3..4", "clone_2"} <= names
    two = tuple(op for op in odd if op.name != "clone_4/conv1/Relu")
    names = outermost(evolve(whole, ops=two))
    assert {"clone_0..1,3", "clone_2,4"} <= names


@pytest.mark.parametrize(
    ("glob", "number"),
    [
        ("clone_1/*", 9),
        ("clone_1", 9),
        ("conv1/kernel", 1 + 1 + 2),
        ("*/Relu", 2),
        ("Relu", 0),
        ("gradients", 4),
    ],
)
def test_choosing_ops(glob: str, number: int) -> None:
    """A glob takes whole names, in the graph or inside a tower, and whole scopes."""
    assert len(list(View(glob=glob).chosen(make_map(2)))) == number


def test_grouping_goes_only_as_far_as_it_must() -> None:
    """Devices are shown one by one if there is room, then alike ones together, then sums by host and job."""
    devices = [f"worker[{task}].gpu[{index}]" for task in range(2) for index in range(2)]
    figures = {ref: ref == "worker[1].gpu[1]" for ref in devices}

    def grouped(most: int) -> list[str]:
        groups = first_that_fits(devices, figures.__getitem__, lambda found: len(found) <= most)
        return [f"{each.label} {each.note}".strip() for each in groups]

    assert grouped(4) == devices
    assert grouped(3) == ["worker[0].gpu[0..1], worker[1].gpu[0] each of 3", "worker[1].gpu[1]"]
    assert grouped(1) == ["worker[0..1].gpu[0..1] sum of 4"]
    assert Group("gpu[0]", ("gpu[0]",)).note == ""


def test_devices_that_differ_are_added_up_for_each_host_and_then_for_each_job() -> None:
    """If not even one column for each job fits, there are these columns all the same."""
    devices = [f"{job}[{task}].gpu[{index}]" for job in "ab" for task in range(2) for index in range(2)]

    def grouped(most: int) -> list[str]:
        groups = first_that_fits(devices, str, lambda found: len(found) <= most)
        return [f"{each.label} {each.note}" for each in groups]

    hosts = [f"{job}[{task}].gpu[0..1] sum of 2" for job in "ab" for task in range(2)]
    assert (grouped(7), grouped(4)) == (hosts, hosts)
    jobs = [f"{job}[0..1].gpu[0..1] sum of 4" for job in "ab"]
    assert (grouped(3), grouped(2), grouped(1)) == (jobs, jobs, jobs)


def test_cutting_stops_at_the_limit() -> None:
    """Parts together hold every op, their keys stay within the limit, and every op is found in its part."""
    ops = make_map(4).ops
    root = tree_of(ops)
    for limit in (10, 20, 40):
        parts = cut(root, limit)
        assert sum(len(part.counts) for part in parts) <= limit
        assert sum(part.counts.total() for part in parts) == len(ops)
        find = finder(parts)
        held = {id(part): 0 for part in parts}
        for op in ops:
            part = find(op.name)
            assert part is not None
            held[id(part)] += 1
        assert [held[id(part)] for part in parts] == [part.counts.total() for part in parts]


def test_cutting_uses_all_of_the_limit() -> None:
    """A scope is opened if its parts come to exactly the limit, and not if there is one place less."""
    ops = make_map(4).ops
    root = tree_of(ops)
    inside = sum(len(part.counts) for part in cut(root, 20))
    assert sum(len(part.counts) for part in cut(root, inside)) == inside
    assert sum(len(part.counts) for part in cut(root, inside - 1)) < inside


def test_cutting_names_little_things_together() -> None:
    """A scope with more inside than there is room for shows what is large, and the rest under one name."""
    ops = [op for op in make_map(1).ops if op.role == "forward"] * 40
    small = [
        type(op)(f"Fill_{at}/dims", "Const", None, "init", "cpu[0]", None, op.rule)
        for at, op in enumerate(ops[:9])
    ]
    parts = cut(tree_of([*ops, *small]), 6)
    assert [(part.scope.path, part.counts.total()) for part in parts] == [
        ("conv1", 120),
        ("logits", 80),
        ("(9 others)", 9),
    ]
    found = finder(parts)("Fill_3/dims")
    assert found is parts[2]


def test_tables_and_names_cut_in_the_middle() -> None:
    """Columns are as wide as they must be, text left and figures right; long names keep both ends."""
    assert table([("name", "n"), ("a", "12"), ("long one", "3")]) == [
        "name       n",
        "a         12",
        "long one   3",
    ]
    assert shorten("conv2_block1_1_conv/kernel", 16) == "conv2_b...kernel"
    assert table([("a", "b", "c"), ("dd", "ee", "ff")], left=2) == ["a   b    c", "dd  ee  ff"]
    assert width_of([("a", "b", "c"), ("dd", "ee", "ff")]) == len("dd  ee  ff")
    assert shorten("short", 16) == "short"
    assert [shorten("abcdefgh", width) for width in (8, 7, 6, 5, 1)] == [
        "abcdefgh",
        "ab...gh",
        "ab...h",
        "a...h",
        "a...h",
    ]
