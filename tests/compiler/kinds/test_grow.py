"""The map of many clones from that of a few, and the places of what has ends at several clones."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.kinds.grid import NotAlikeError, Spot
from compiler.kinds.grow import joined, kinds_of, of_op, tensorflow_name
from compiler.mapping.records import PlacementMap
from tests.compiler.kinds.deployments import (
    NAMES,
    SERVER,
    grid_of,
    map_of,
    plan_of,
)
from tests.compiler.kinds.fitted import patterns


@pytest.mark.parametrize(
    ("spots", "expected"),
    [
        ([], Spot(None, None)),
        ([Spot(0, 0), Spot(0, 1), Spot()], Spot(0, 1)),
        ([Spot(1, 2), Spot(0, 0)], Spot(1, 2)),
    ],
)
def test_ends_at_one_clone_and_the_first(spots: list[Spot], expected: Spot) -> None:
    """The first task and the first clone may be at the other end."""
    assert joined(spots, "a transfer") == expected


@pytest.mark.parametrize("other", [Spot(0, 2), Spot(2, 0)])
def test_ends_at_several_clones_have_no_kind(other: Spot) -> None:
    """Then the graph of all clones has to be built."""
    with pytest.raises(NotAlikeError, match="a transfer is of several tasks or clones"):
        joined([Spot(1, 1), other], "a transfer")


@pytest.mark.parametrize(
    ("ref", "emulate", "name"),
    [
        ("worker[3].gpu[1]", False, "/job:worker/replica:0/task:3/device:GPU:1"),
        ("worker[{host}].gpu[{group}]", False, "/job:worker/replica:0/task:{host}/device:GPU:{group}"),
        ("cpu[0]", False, "/job:localhost/replica:0/task:0/device:CPU:0"),
        ("worker[3].gpu[1]", True, "/job:localhost/replica:0/task:0/device:CPU:{ordinal}"),
    ],
)
def test_names_of_devices_in_tensorflow(ref: str, name: str, *, emulate: bool) -> None:
    """Emulated devices are processors of this process, which are numbered later."""
    assert tensorflow_name(ref, emulate=emulate) == name


@pytest.mark.parametrize(("tasks", "clones"), [(2, 2), (3, 3), (4, 3), (3, 8)])
def test_the_map_of_many_is_grown_from_that_of_few(tasks: int, clones: int) -> None:
    """Every record of every clone is as it is written down, with its names, numbers and reasons."""
    grown = kinds_of(map_of(2, 2), patterns(*NAMES)[0], grid_of(tasks, clones), plan_of(tasks, clones))
    assert grown.expanded() == map_of(tasks, clones)


def test_copies_of_all_clones_on_a_server_are_held_there() -> None:
    """What the server holds of variables and slots grows with the clones, and with nothing else."""

    def on_server(tasks: int, clones: int) -> PlacementMap:
        found = map_of(tasks, clones)
        shared, copied = found.variables
        number = tasks * clones
        slots = tuple(evolve(each, device=SERVER) for each in copied.slots)
        moved = evolve(copied, device=SERVER, copies=(SERVER,) * number, slots=slots)
        devices = tuple(
            evolve(each, variable_bytes=64 + 16 * number, slot_bytes=64 + 16 * number)
            if each.ref == SERVER
            else evolve(each, variable_bytes=0, slot_bytes=0)
            for each in found.devices
        )
        return evolve(found, variables=(shared, moved), devices=devices)

    grown = kinds_of(on_server(2, 2), patterns(*NAMES)[0], grid_of(4, 3), plan_of(4, 3))
    assert grown.expanded() == on_server(4, 3)


def test_emulated_devices_are_numbered_in_their_order() -> None:
    """All of them are processors of this process."""
    plan = evolve(plan_of(3, 3), emulate=True)
    grown = kinds_of(map_of(2, 2), patterns(*NAMES)[0], grid_of(3, 3), plan)
    assert [each.device for each in grown.expanded().devices] == [
        f"/job:localhost/replica:0/task:0/device:CPU:{at}" for at in range(14)
    ]


def test_maps_that_are_not_those_of_clones_that_are_alike() -> None:
    """A copy is missing, or an op is beside another clone than its own."""
    whole = map_of(2, 2)
    shared, copied = whole.variables
    fewer = evolve(copied, copies=copied.copies[1:])
    moved = tuple(
        evolve(each, requested="worker[0].gpu[1]") if each.name == "clone_0/MatMul" else each
        for each in whole.ops
    )
    for wrong, words in (
        (evolve(whole, variables=(shared, fewer)), "there are not as many copies as clones"),
        (evolve(whole, ops=moved), "clone_0/MatMul is on worker.0..gpu.1., and not each of them has one"),
    ):
        with pytest.raises(NotAlikeError, match=words):
            kinds_of(wrong, patterns(*NAMES)[0], grid_of(4, 3), plan_of(4, 3))


@pytest.mark.parametrize(
    ("name", "clone", "spot"),
    [
        ("w", 3, Spot(1, 1)),
        ("clone_0/MatMul", 3, Spot(1, 1)),
        ("clone_3/MatMul", 3, Spot(1, 1)),
        ("clone_3/MatMul", None, Spot(1, 1)),
        ("clone_2/MatMul", 1, None),
        ("clone_1/MatMul", 2, None),
        ("clone_1/MatMul", 0, None),
        ("clone_3/MatMul", 2, None),
    ],
)
def test_an_op_of_a_clone_is_not_named_after_another(name: str, clone: int | None, spot: Spot | None) -> None:
    """But it may be named after the first."""
    if spot is not None:
        assert of_op(name, clone, patterns(*NAMES)[0])[1] == spot
        return
    with pytest.raises(NotAlikeError, match=f"{name} is of several clones"):
        of_op(name, clone, patterns(*NAMES)[0])
