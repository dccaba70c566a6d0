"""Components that share nothing are packed, and a search without time ends with what it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.search import search as module
from compiler.search.problem import (
    HOST,
    Floats,
    Integers,
    Operator,
    Problem,
    Workload,
    find_components,
    gather,
)
from compiler.search.search import pack_components, search
from compiler.search.tempering import Ladder, temper


def alone(seconds: list[float], *, accelerators: int = 2, capacity: float = 100.0) -> Workload:
    """Return operators without edges, each with a byte, on accelerators without a host."""
    operators = tuple(Operator(str(at), each, 3 * each, 1.0) for at, each in enumerate(seconds))
    return Workload(operators, accelerators, capacity, host=False)


def test_components_share_no_net() -> None:
    """Two operators that read the same output are in one component, and those without edges in their own."""
    readers: list[tuple[int, ...]] = [(2, 3), (), (), (), (5,), ()]
    operators = tuple(Operator(str(at), 1.0, 1.0, 1.0, 0.1, each) for at, each in enumerate(readers))
    problem = gather(Workload(operators, 2, 10.0))
    assert find_components(problem).tolist() == [0, 1, 0, 0, 2, 2]


def test_the_longest_comes_first_and_goes_where_the_load_is_lowest() -> None:
    """Both devices end with eight seconds, although the short ones come first."""
    problem = gather(alone([2.0, 2.0, 2.0, 3.0, 3.0, 4.0]))
    assert problem.loads(pack_components(problem)).tolist() == [8.0, 8.0, 0.0]


def test_a_component_stays_together() -> None:
    """What is connected is on one device, even if devices are less even for that."""
    operators = tuple(Operator(str(at), 1.0, 9.0, 1.0, 0.1, (at + 1,) if at < 2 else ()) for at in range(4))
    devices = pack_components(gather(Workload(operators, 2, 10.0, host=False)))
    assert devices.tolist() == [0, 0, 0, 1]


def test_packing_keeps_within_the_memory_and_what_devices_can_run() -> None:
    """A full device gets no more, and what accelerators cannot run is on the host."""
    full = gather(alone([5.0, 1.0, 1.0], capacity=2.0))
    assert pack_components(full).tolist() == [0, 1, 1]
    tight = gather(alone([1.0, 1.0, 1.0, 1.0, 9.0], capacity=4.0))
    assert tight.excess(pack_components(tight)) == 0
    operators = (Operator("a", 1.0, 1.0, 1.0, supported=False), Operator("b", 1.0, 9.0, 1.0))
    assert gather(Workload(operators, 2, 1.0)).places(np.array([2, 0])) == (HOST, 0)
    assert pack_components(gather(Workload(operators, 2, 1.0))).tolist() == [2, 0]


def test_what_fits_nowhere_is_where_the_most_room_is() -> None:
    """Two bytes on a device for one are missing once, and not on the device that is full already."""
    big = Operator("big", 9.0, 9.0, 1.5)
    operators = (big, Operator("a", 2.0, 2.0, 2.0), Operator("b", 1.0, 1.0, 1.0))
    problem = gather(Workload(operators, 2, 2.0, host=False))
    devices = pack_components(problem)
    assert devices.tolist() == [0, 1, 0]
    assert problem.excess(devices) == 0.5


def test_many_operators_without_edges_are_almost_even_at_once() -> None:
    """Packing alone comes within a thousandth of the bound, where single moves end above it."""
    random = np.random.default_rng(0)
    found = search(
        alone(random.lognormal(size=400).tolist(), accelerators=8, capacity=1e9), hurry=lambda: True
    )
    assert found.lower_bound <= found.max_load < 1.001 * found.lower_bound


def test_a_search_in_a_hurry_ends_with_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time nothing is tempered; with time for a part of it, no further cycle is begun."""
    sizes: list[int] = []

    def counted(
        problem: Problem, starts: Integers, scale: float, sweeps: int, ladder: Ladder, random: Any, hurry: Any
    ) -> tuple[Integers, Floats]:
        sizes.append(problem.size)
        return temper(problem, starts, scale, sweeps, ladder, random, hurry)

    monkeypatch.setattr(module, "temper", counted)
    workload = alone([1.0 + at % 7 for at in range(30)])
    at_once = search(workload, hurry=lambda: True)
    assert sizes == []
    asked: list[bool] = []

    def hurry() -> bool:
        asked.append(bool(sizes))
        return bool(sizes)

    found = search(workload, hurry=hurry)
    assert sizes == [30]
    assert asked[-2:] == [True, True]  # before the first sweep, and before the next cycle
    assert found.max_load <= at_once.max_load
