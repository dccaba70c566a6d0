"""The placement map in a terminal; whole texts stand in tests/golden/plan/."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from compiler.report.terminal import op_list, terminal_map
from compiler.report.view import View
from tests.placement_maps import make_kinds, make_map, with_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.mapping.records import PlacementMap


def moved(placement: PlacementMap) -> PlacementMap:
    """Return the map after a step that put the ops of `logits` on the CPU."""
    ops = tuple(
        evolve(op, assigned="cpu[0]" if "/logits/MatMul" in op.name else op.requested) for op in placement.ops
    )
    return with_counts(evolve(placement, ops=ops))


def forecast(placement: PlacementMap) -> PlacementMap:
    """Return the map with a forecast of memory on every device."""
    devices = tuple(
        evolve(each, step_bytes=1 << 20, memory_bytes=(1 << 20) + each.variable_bytes + each.slot_bytes)
        for each in placement.devices
    )
    return evolve(placement, devices=devices)


VIEWS = {
    "two_clones": (make_map(2), View()),
    "one_clone": (make_map(1), View()),
    "memory": (forecast(make_map(2)), View(depth=1)),
    "deep": (make_map(2), View(depth=9, glob="clone_1")),
    "misplaced": (moved(make_map(2)), View(depth=1)),
    "many_misplaced": (moved(make_map(8)), View(depth=1)),
    "only_misplaced": (moved(make_map(2)), View(only_misplaced=True)),
    "all_in_place": (
        with_counts(
            evolve(make_map(1), ops=tuple(evolve(op, assigned=op.requested) for op in make_map(1).ops))
        ),
        View(depth=1),
    ),
    "nothing_matches": (make_map(2), View(glob="conv9")),
    "eight_gpus": (make_map(8), View(depth=1)),
    "every_clone": (make_map(8), View(depth=1, every_clone=True)),
    "64_gpus_of_a_cluster": (make_map(64, host="worker[{}]."), View(depth=2)),
    "64_gpus_each_on_its_own": (make_map(64), View(depth=1, every_clone=True, glob="clone_1*")),
}


@pytest.mark.parametrize("name", VIEWS)
def test_terminal_map(name: str, golden: Callable[[str, str], None]) -> None:
    """The map tells what it is of, what each device holds, and how many ops of each scope are where."""
    placement, view = VIEWS[name]
    text = terminal_map(placement, view)
    golden(f"plan/{name}.txt", text)
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()


def test_colour_adds_nothing_to_what_is_said() -> None:
    """Without its escape sequences the coloured map is the plain one."""
    plain = terminal_map(moved(make_map(2)), View())
    coloured = terminal_map(moved(make_map(2)), View(color=True))
    assert coloured != plain
    for code in ("\x1b[1m", "\x1b[31m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_op_list(golden: Callable[[str, str], None]) -> None:
    """Every op has a line: device (both, where it moved), role, name, and what put it there."""
    text = "".join(f"{line}\n" for line in op_list(moved(make_map(2)), View(glob="clone_1")))
    golden("plan/ops.txt", text)


def test_op_list_of_nothing() -> None:
    """A glob that matches no op is said to match none."""
    assert list(op_list(make_map(2), View(glob="conv9/*"))) == ["no op matches conv9/*"]


def test_depth_fits_a_screen() -> None:
    """Without a depth, scopes are opened as long as that takes no more than forty rows."""
    lines = terminal_map(make_map(4), View()).splitlines()
    assert "depth 2 of 3; --depth N shows more, --ops every op" in lines
    assert sum(line.lstrip().split("  ")[0].endswith("/") for line in lines) <= 40


@pytest.mark.parametrize(("more", "told"), [(0, False), (1, True)])
def test_as_many_rows_as_a_screen_has(more: int, told: bool) -> None:
    """Twenty scopes with one inside each take forty rows; with one row more they stay closed."""
    one = make_map(1).ops[0]
    names = [f"scope_{at}/inside/op" for at in range(20)] + ["other/op"] * more
    ops = tuple(evolve(one, name=name, clone=None) for name in names)
    lines = terminal_map(with_counts(evolve(make_map(1), ops=ops)), View()).splitlines()
    assert ("depth 1 of 2; --depth N shows more, --ops every op" in lines) == told


def test_every_clone_of_a_map_by_kinds() -> None:
    """A map of many clones is written out only if every clone is asked for."""
    kinds = make_kinds(3, 2)
    assert "clone_0..5/" in terminal_map(kinds, View(depth=1))
    each = terminal_map(kinds, View(depth=1, every_clone=True))
    assert [f"clone_{at}/" in each for at in range(7)] == [True] * 6 + [False]
