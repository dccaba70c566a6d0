"""Simulations of clones that stand for others."""

from typing import Any

import pytest
from attrs import evolve

from compiler.time.forecast import forecast_step
from compiler.time.simulation.others import TOGETHER, all_abroad, groups_of
from compiler.topology import Device
from tests.compiler.time.steps import Machine, op, step

SERVER = Device("cpu", 0, "ps", 0)


def clones(count: int, numbers: list[int], **more: Any) -> Any:
    """Return the work of clones of which each computes 10 ms between 1 ms and 2 ms on a server.

    Args:
        count: How many clones there are.
        numbers: The tasks whose clones are written down.
        more: Further fields of the work.
    """
    ops, arrows, loops = [], [], []
    for number in numbers:
        letters = [f"{name}{number}" for name in ("read", "fit", "apply")]
        device = Device("cpu", 0, "worker", number)
        places = ((1, SERVER), (10, device), (2, SERVER))
        ops += [op(f"{name}={time}", at) for name, (time, at) in zip(letters, places, strict=True)]
        arrows += [(letters[0], letters[1]), (letters[1], letters[2])]
        loops.append((len(ops) - 3, len(ops) - 2, len(ops) - 1))
    work = step(ops, arrows, one_process=False, one_machine=False, loops=tuple(loops))
    if len(numbers) < count:
        work = evolve(work, alike={("worker", count - 1): count - 1})
    return evolve(work, **more)


def folded(count: int) -> Any:
    """Return the work in which the last of some clones stands for all but the first."""
    return clones(count, [0, count - 1])


def busy(forecast: Any) -> dict[str, float]:
    """Return how busy devices are."""
    return {each.ref: each.busy for each in forecast.devices}


@pytest.mark.parametrize("count", [12, 24, 32, 40])
def test_clones_that_stand_for_others_are_as_fast_as_all(count: int) -> None:
    """They wait for the server, which has two threads."""
    machine = Machine(latency=1e-4)
    whole = forecast_step(clones(count, list(range(count))), machine)
    found = forecast_step(folded(count), machine)
    assert found.seconds == pytest.approx(whole.seconds, rel=0.05)
    for ref, share in busy(found).items():
        assert share == pytest.approx(busy(whole)[ref], rel=0.1), ref


def test_a_server_bounds_the_rate_of_very_many_clones() -> None:
    """Each needs 3 ms of its two cores; a clone that waits for it is hardly ever at work itself."""
    found = forecast_step(folded(400), Machine())
    assert found.seconds * 1e3 == pytest.approx(3 / 2, rel=0.05)
    assert busy(found)["ps[0].cpu[0]"] == pytest.approx(1, abs=0.01)
    assert busy(found)["worker[399].cpu[0]"] < 0.05


def test_what_clones_do_elsewhere() -> None:
    """Two ops on the server, of which the second gets something that the clone makes of the first."""
    ((number, abroad),) = all_abroad(folded(5))
    assert (number, abroad.host, abroad.count) == (1, ("worker", 4), 3)
    assert (abroad.ops, abroad.waits) == ((3, 5), {3: 0, 5: 0})
    assert [(each.needed, each.ops) for each in abroad.gates] == [({3}, (5,))]
    assert abroad.opened == {3: [0]}
    assert not list(all_abroad(clones(5, [0, 1, 2, 3, 4])))


@pytest.mark.parametrize(("count", "places", "groups"), [(3, 16, [1, 1, 1]), (5, 2, [3, 2]), (4, 0, [4])])
def test_others_are_in_groups(count: int, places: int, groups: list[int]) -> None:
    """As few of them in each as there are places for."""
    assert groups_of(count, places) == groups
    assert TOGETHER > 8
