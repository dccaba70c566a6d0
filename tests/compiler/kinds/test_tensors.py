"""Tensors of a few clones are counted and named as those of many."""

from __future__ import annotations

import pytest

from compiler.kinds.grid import MapGrid, Spot
from compiler.kinds.templates import Numbers, parse
from compiler.kinds.tensors import LARGEST, compared, largest_at, largest_of, named, orbits_of
from compiler.mapping.records import MapTensor
from tests.compiler.kinds.fitted import patterns

FEW, MANY = MapGrid("worker", "gpu", 3, 3, 1), MapGrid("worker", "gpu", 12, 4, 1)
NAMES = patterns(
    *(f"clone_{{clone}}/{each}" for each in "bxyz"),
    "input/{task}/next",
    few=FEW,
    more=MapGrid("worker", "gpu", 4, 4, 1),
)[0]


def tensors(names: list[str], size: int = 8) -> list[MapTensor]:
    """Return tensors of one size."""
    return [MapTensor(f"{each}:0", size) for each in names]


def of_all(grid: MapGrid, name: str = "clone_{}/y") -> list[str]:
    """Return a name for each clone of a grid."""
    return [name.format(at) for at in range(grid.clones)]


@pytest.mark.parametrize("missing", [0, 1])
def test_what_a_server_gets_from_all_clones(missing: int) -> None:
    """Each clone has one, or all but the last."""
    few = tensors(of_all(FEW)[: FEW.clones - missing])
    orbits = orbits_of(few, Spot(), NAMES)
    assert sum(each.count(MANY) for each in orbits) == MANY.clones - missing
    numbers = Numbers(MANY)
    names = {each.at(numbers, 0, 0) for orbit in orbits for each in orbit.templates(MANY)}
    assert names == {f"{each}:0" for each in of_all(MANY)[: MANY.clones - missing]}


def test_what_some_clones_have_grows_unless_fewer_have_as_much_of_it() -> None:
    """One of two other clones on a task has it: as the only other one of fewer has, or all but the last."""
    fewer, three = MapGrid(None, "gpu", 1, 2, 1), MapGrid(None, "gpu", 1, 3, 1)
    of_two, of_three = patterns("clone_{clone}/y", "clone_{clone}/z", few=fewer, more=three)
    orbits = orbits_of(tensors(["clone_0/y", "clone_1/y"]), Spot(), of_three)
    for names, count in ((["clone_0/y", "clone_1/y"], 1), (["clone_0/y"], 8), (["clone_1/z"], 8)):
        of_fewer = orbits_of(tensors(names), Spot(), of_two)
        first, others = compared(orbits, of_fewer, (fewer, three))
        assert first.count(MapGrid(None, "gpu", 1, 10, 1)) == 1
        assert others.count(MapGrid(None, "gpu", 1, 10, 1)) == count
        assert len(list(others.templates(MapGrid(None, "gpu", 1, 10, 1)))) == count
    whole = orbits_of(tensors(["clone_1/y", "clone_2/y"]), Spot(), of_three)
    (same,) = compared(whole, orbits_of(tensors(["clone_1/y"]), Spot(), of_two), (fewer, three))
    assert same.count(MapGrid(None, "gpu", 1, 10, 1)) == 9


@pytest.mark.parametrize(
    ("here", "names", "count", "grown"),
    [
        (Spot(), ["fc/kernel/read"], 1, "fc/kernel/read:0"),
        (Spot(1, 1), ["clone_4/y"], 1, "clone_21/y:0"),
        (Spot(1, 1), ["clone_0/y"], 1, "clone_0/y:0"),
        (Spot(1, 1), ["clone_3/y"], 1, "clone_20/y:0"),
        (Spot(1), ["clone_3/y"], 1, "clone_20/y:0"),
        (Spot(1), ["input/1/next"], 1, "input/5/next:0"),
        (Spot(1), ["clone_4/y", "clone_5/y"], 3, "clone_21/y:0"),
    ],
)
def test_what_is_beside_a_thing_is_there_once_for_it(
    here: Spot, names: list[str], count: int, grown: str
) -> None:
    """It is of the task or the clone of the thing, of the first, or of none."""
    (orbit,) = orbits_of(tensors(names), here, NAMES)
    assert orbit.count(MANY) == count
    first = next(orbit.templates(MANY))
    assert first.at(Numbers(MANY), 5 if here.host else 0, 1 if here.group else 0) == grown


def test_the_largest_tensors_are_from_the_largest_orbits() -> None:
    """From as many as hold the largest five, and from others of the same size as the last of these."""
    sizes = {"a": 90, "clone_{}/b": 80, "c": 80, "d": 70}
    few = [
        each
        for name, size in sizes.items()
        for each in tensors(of_all(FEW, name) if "{}" in name else [name], size)
    ]
    orbits = orbits_of(few, Spot(), NAMES)
    assert [each.bytes for each in orbits] == [90, *[80] * 5, 70]
    assert [each.bytes for each in largest_of(orbits, MANY)] == [90, *[80] * 5]
    single = orbits_of([tensor for at in range(7) for tensor in tensors([f"x{at}"], 9 - at)], Spot(), NAMES)
    assert [each.bytes for each in largest_of(single, MANY)] == [9, 8, 7, 6, 5]
    assert largest_of(orbits[:1], MANY) == tuple(orbits[:1])


@pytest.mark.parametrize(
    "names",
    [
        {"clone_{}/y": 8},
        {"clone_{}/y": 8, "z": 9, "a": 8},
        {"clone_{}/y": 8, "clone_{}/x": 8},
        {"clone_{}/y": 7, "clone_{}/x": 8, "a": 7, "b": 7, "z": 7},
        {"a": 5, "b": 4, "c": 3, "d": 2, "e": 1, "clone_{}/y": 1},
        {"x_clone": 8, "clone": 8, "clone_{}/y": 8, "clone1": 8, "clone_{}/z": 8, "d": 8},
    ],
)
def test_the_five_largest_of_each_clone_are_named(names: dict[str, int]) -> None:
    """Those of one size are in the order of their names, which depends on the digits of numbers in them."""
    here = Spot(1, 1)
    few = [MapTensor(f"{name.format(4)}:0", size) for name, size in names.items()]
    kept = [(each.bytes, parse(each.name, 1)) for each in named(orbits_of(few, here, NAMES), MANY)]
    for host in range(1, MANY.hosts):
        for group in range(1, MANY.groups):
            clone = MANY.number(host, group)
            own = sorted((-size, f"{name.format(clone)}:0") for name, size in names.items())[:LARGEST]
            found = largest_at(kept, Numbers(MANY), host, group)
            assert [(-each.bytes, each.name) for each in found] == own
