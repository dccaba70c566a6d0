"""The search has a bounded amount of work, whatever the graph, and its result is a placement nevertheless."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from benchmarks.placement.files import workload_of
from benchmarks.placement.generated import tangle, transformer
from compiler.search import coarsen, pieces, search
from compiler.search.pieces import count_work, split_into_pieces
from compiler.search.prefixes import find_prefixes, find_wanted
from compiler.search.problem import Floats, Integers, Problem, Workload, gather
from compiler.search.tempering import Ladder, temper
from tests.compiler.search.taken import measure_bytes


def star(leaves: int) -> dict[str, Any]:
    """Return a graph in which all nodes but the first read that one."""
    content = tangle(leaves + 1, 1, accelerators=3)
    cost = {"cost": 0.5}
    content["edges"] = [{"sourceId": 0, "destId": leaf, **cost} for leaf in range(1, leaves + 1)]
    return content


def check(workload: Workload, found: search.Split) -> None:
    """Hold that a result is a placement that fits, and no worse than everything on one device."""
    assert found.missing == 0
    assert len(found.places) == len(workload.operators)
    assert max(measure_bytes(workload, found.places)) <= workload.capacity
    place_of: dict[Any, int] = {}
    for operator, place in zip(workload.operators, found.places, strict=True):
        assert -1 <= place < workload.accelerators
        if operator.together is not None:
            assert place_of.setdefault(operator.together, place) == place
    assert found.lower_bound <= found.max_load <= sum(each.seconds for each in workload.operators)


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the work of each table is added that is filled."""
    found: list[int] = []
    fill = pieces._fill

    def recorded(given: Any, best: float) -> Any:
        found.append(count_work(given, best))
        return fill(given, best)

    monkeypatch.setattr(pieces, "_fill", recorded)
    return found


def test_the_dynamic_program_takes_what_it_can_afford(
    filled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of too many prefixes those are kept that are wanted the most, and the split of these is one."""
    problem = gather(workload_of(tangle(80, 40, accelerators=3)))
    prefixes = find_prefixes(problem, 8)
    work = count_work(prefixes, np.inf)
    monkeypatch.setattr(pieces, "MOST_WORK", work // 50)
    found = split_into_pieces(problem, 8)
    assert found is not None
    host = problem.accelerators
    assert all(found[a] <= found[b] for a, b in problem.order if host not in (found[a], found[b]))
    assert filled
    assert all(0 < each <= work // 50 for each in filled)
    monkeypatch.setattr(pieces, "MOST_WANTED", work // 2)
    assert split_into_pieces(problem, 8) is None
    assert split_into_pieces(problem, 1) is not None
    some = find_wanted(prefixes, 2)
    assert [int(row.sum()) for row in some.members][:1] == [0]
    assert {int(row.sum()) for row in some.members[1:-1]} == {64}
    assert some.members[-1].all()
    assert not some.complete


@pytest.mark.family(every=3)
@pytest.mark.parametrize(
    "content",
    [star(52), tangle(52, 1, accelerators=3), tangle(42, 40, accelerators=9)],
    ids=["star", "chain", "many"],
)
def test_a_cycle_offers_what_it_can_afford(
    content: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sweeps are fewer where groups do not join, or have many devices or nets, but there is always one."""
    spent: list[float] = []

    def recorded(
        problem: Problem, starts: Integers, scale: float, sweeps: int, ladder: Ladder, random: Any, _: Any
    ) -> tuple[Integers, Floats]:
        assert sweeps >= 1
        spent.append(sweeps * search.count_work(problem))
        return temper(problem, starts, scale, sweeps, ladder, random)

    monkeypatch.setattr(search, "temper", recorded)
    workload = workload_of(content)
    monkeypatch.setattr(search, "MOST_WORK", 1500)
    found = search.search(workload)
    check(workload, found)
    assert sum(spent) <= 1500 * search.MOST_CYCLES


def test_large_nets_do_not_decide_what_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups are joined by small nets only, if a large one has too many pairs."""
    content = star(40)
    content["edges"].append({"sourceId": 1, "destId": 2, "cost": 0.1})
    problem = gather(workload_of(content))
    assert coarsen.coarsen(problem, 10, np.random.default_rng(0)).max() < 20
    monkeypatch.setattr(coarsen, "MOST_PAIRS", 100)
    parts = coarsen.coarsen(problem, 10, np.random.default_rng(0))
    assert parts.max() + 1 == problem.size - 1
    assert parts[1] == parts[2]


LARGE = {
    "tangle": lambda: tangle(2000, 40, accelerators=6),
    "wide": lambda: tangle(2000, 1000, accelerators=6),
    "chain": lambda: tangle(2000, 1, accelerators=6),
    "star": lambda: star(1999),
    "many_devices": lambda: tangle(2000, 40, accelerators=16),
    "training": lambda: transformer(20, training=True, accelerators=6),
}


@pytest.mark.full
@pytest.mark.parametrize("graph", LARGE)
def test_large_graphs_of_any_shape_are_placed(graph: str, filled: list[int]) -> None:
    """2,000 nodes get the same placement again, in a bounded number of steps."""
    workload = workload_of(LARGE[graph]())
    found = search.search(workload)
    check(workload, found)
    assert len(filled) <= 6
    assert all(each <= pieces.MOST_WORK for each in filled)
    assert search.search(workload) == found
    assert found.max_load < 1.2 * found.lower_bound or graph == "wide"
