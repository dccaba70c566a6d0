"""How much a search does: which problems it solves in a cycle, with how many sweeps, and how many cycles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

from compiler.search import search as module
from compiler.search.problem import HOST, Floats, Integers, Operator, Problem, Workload, gather, measure_loads
from compiler.search.search import REPLICAS, count_work, search
from compiler.search.tempering import Ladder, temper


def chain(length: int, **more: Any) -> Workload:
    """Return operators that follow each other, each of which takes a second and sends a tenth of it."""
    operators = tuple(
        Operator(str(at), 1.0, 3.0, 1.0, 0.1, (at + 1,) if at + 1 < length else ()) for at in range(length)
    )
    return evolve(Workload(operators, 3, capacity=1000.0, host=False), **more)


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, Integers]]:
    """Return a list that fills with the groups, sweeps and starts of each problem that is solved."""
    found: list[tuple[int, int, Integers]] = []

    def solve(
        problem: Problem, starts: Integers, scale: float, sweeps: int, ladder: Ladder, random: Any, _: Any
    ) -> tuple[Integers, Floats]:
        found.append((problem.size, sweeps, starts.copy()))
        return temper(problem, starts, scale, 1, ladder, random)

    monkeypatch.setattr(module, "temper", solve)
    return found


@pytest.mark.parametrize(
    ("length", "cycle"),
    [
        (40, [(40, 80)]),
        (50, [(50, 80)]),
        (51, [(50, 80), (51, 25)]),
        (160, [(50, 80), (150, 25), (160, 10)]),
    ],
)
def test_a_cycle_goes_from_few_groups_to_all(
    monkeypatch: pytest.MonkeyPatch, length: int, cycle: list[tuple[int, int]]
) -> None:
    """The fewer groups are left, the more sweeps they get; small problems are not coarsened."""
    found = recorded(monkeypatch)
    monkeypatch.setattr(module, "MOST_WORK", 10**9)
    monkeypatch.setattr(module, "join_inseparable", lambda problem, _: np.arange(problem.size))
    search(chain(length))
    number = len(found) // len(cycle)
    assert [sweeps for _, sweeps, _ in found] == [sweeps for _, sweeps in cycle] * number
    for (size, _, starts), (groups, _) in zip(found, cycle * number, strict=True):
        assert groups <= size <= max(groups, 1.2 * groups)
        assert starts.shape == (size, REPLICAS)
    assert number == (3 if length == 160 else 2)


def test_every_second_cycle_goes_on_from_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of its replicas begin with the best placement, the others and the first cycle by chance."""
    found = recorded(monkeypatch)
    search(chain(30))
    assert len(found) == 2
    fresh, known = (starts for _, _, starts in found)
    assert len({tuple(column) for column in fresh.T}) == REPLICAS
    columns = [tuple(column) for column in known.T]
    assert len(set(columns[: REPLICAS // 2])) == 1
    assert len(set(columns)) == REPLICAS // 2 + 1
    assert set(np.unique(fresh)) == {0, 1, 2}  # of accelerators alone
    found.clear()
    search(chain(30), effort=2)
    assert len(found) == 4


def test_another_seed_begins_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """All chance is by the seed."""
    found = recorded(monkeypatch)
    for seed in (0, 0, 1):
        search(chain(20), seed=seed)
    first, again, other = (found[at][2] for at in (0, 2, 4))
    assert (first == again).all()
    assert (first != other).any()


def test_the_work_of_a_sweep() -> None:
    """Each group is an offer; devices and the groups in nets make it longer by a little."""
    for accelerators, per_group, per_pin in ((3, 1.128, 0.016), (7, 1.256, 0.032)):
        problem = gather(chain(10, accelerators=accelerators))
        assert count_work(problem) == pytest.approx(10 * per_group + 9 * 2 * per_pin)


def test_sweeps_are_fewer_in_proportion_to_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for half of the work of a cycle each of its problems gets half of its sweeps."""
    found = recorded(monkeypatch)
    monkeypatch.setattr(module, "join_inseparable", lambda problem, _: np.arange(problem.size))
    monkeypatch.setattr(module, "MOST_WORK", 40 * count_work(gather(chain(30))))
    search(chain(30))
    assert [sweeps for _, sweeps, _ in found] == [40, 40]


@pytest.mark.parametrize(("workload", "match"), [(chain(0), "operators"), (chain(2, accelerators=0), "one")])
def test_a_search_needs_something_to_place(workload: Workload, match: str) -> None:
    """Operators, and accelerators to place them on."""
    with pytest.raises(ValueError, match=match):
        search(workload)


def test_starts_may_be_on_the_host() -> None:
    """A start has `HOST` for it, and the result is no worse."""
    workload = chain(3, host=True, accelerators=1)
    start = (HOST, 0, 0)
    assert search(workload, (start,)).max_load <= max(measure_loads(workload, start))
    slow = evolve(workload, operators=tuple(evolve(each, host_seconds=0.0) for each in workload.operators))
    assert search(slow, ((HOST,) * 3,)).loads == (0.0, 0.0)
