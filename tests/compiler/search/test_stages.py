"""What each stage of a search finds for a few graphs, as a golden text that shows what a change changes.

The other tests hold that results are good. A search that does less of something, or in another order, may
have good results nevertheless, in these graphs; it hardly has the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from attrs import evolve

from benchmarks.placement.files import workload_of
from benchmarks.placement.generated import tangle
from compiler.search.coarsen import coarsen
from compiler.search.pieces import _best_split, count_work
from compiler.search.prefixes import Prefixes, find_neighbours, find_prefixes, find_wanted
from compiler.search.problem import Problem, find_components, gather, join_inseparable
from compiler.search.search import lower_bound, pack_components, search
from compiler.search.tempering import Ladder, temper
from tests.compiler.search.test_search import small

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from compiler.search.problem import Workload


def scarce() -> Workload:
    """Return a graph with a host, memory for half of it, and an operator that accelerators cannot run."""
    workload = small(6, nodes=12, accelerators=2, host=True)
    operators = list(workload.operators)
    operators[5] = evolve(operators[5], supported=False)
    operators[9:] = [evolve(each, backward=True) for each in operators[9:]]
    return evolve(workload, operators=tuple(operators), capacity=9.0)


GRAPHS: dict[str, Callable[[], Workload]] = {
    "chains": lambda: workload_of(tangle(24, 3, accelerators=3)),
    "wide": lambda: evolve(workload_of(tangle(16, 6, accelerators=4)), host=False),
    "scarce": scarce,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_stages_of_a_search(name: str, golden: Callable[[str, str], None]) -> None:
    """The same graph has the same groups, prefixes, pieces, pairs and placements again."""
    golden(f"search/{name}.txt", "\n".join(told(GRAPHS[name]())) + "\n")


def told(workload: Workload) -> Iterator[str]:
    """Yield what the stages find, as lines of text."""
    problem = gather(workload)
    yield f"groups of operators: {row(problem.group_of)}"
    yield f"nets: {'; '.join(f'{row(net)} at {cost:.4f}' for net, cost in _nets(problem))}"
    yield f"order: {'; '.join(row(each) for each in sorted(problem.order))}"
    yield f"components: {row(find_components(problem))}"
    yield f"packed: {row(pack_components(problem))}"
    whole = float(problem.seconds.sum())
    for part in (0.2, 0.4, 1.0):
        yield f"joined below {part}: {row(join_inseparable(problem, part * whole))}"
        yield f"bound below {part}: {lower_bound(problem, part * whole):.6f}"
    for width in (1, 3, 100):
        prefixes = find_prefixes(problem, width)
        yield f"prefixes of width {width}: {len(prefixes.members)}, complete: {prefixes.complete}"
        yield f"  they cut: {row(prefixes.cut)}"
        yield f"  wanted: {row(prefixes.wanted)}"
        yield from _split(prefixes, whole)
    few = find_prefixes(problem, 2)
    yield from _split(find_wanted(few, 5), whole)
    near = find_neighbours(few, (len(few.members) // 2, 2), 6)
    yield f"near: {'; '.join(_bits(each) for each in near.members)}; wanted: {row(near.wanted)}"
    yield from _split(near, whole)
    for target in (3, 6, 9):
        yield f"about {target} groups: {row(coarsen(problem, target, np.random.default_rng(target)))}"
    apart = np.arange(problem.size) % 2
    yield f"about 4 groups, odd ones apart: {row(coarsen(problem, 4, np.random.default_rng(4), apart))}"
    yield from _tempered(problem, whole / workload.accelerators)
    found = search(workload, seed=3)
    yield f"places: {row(found.places)}"
    yield f"loads: {' '.join(f'{each:.6f}' for each in found.loads)}"
    yield f"no load is below {found.lower_bound:.6f}; {found.missing:.6f} are missing"


def _split(prefixes: Prefixes, whole: float) -> Iterator[str]:
    """Yield the best split at some prefixes, without a known placement and with one of half of the work."""
    for best in (np.inf, whole / 2):
        found = _best_split(prefixes, best)
        said = "none" if found is None else f"{row(found.devices)} at {found.load:.6f}, cut {row(found.cuts)}"
        yield f"  split: {said}; numbers: {count_work(prefixes, best)}"


def _tempered(problem: Problem, scale: float) -> Iterator[str]:
    """Yield what a few replicas have found after a few sweeps, with and without much heat."""
    for ladder in (Ladder(1e-3, 0.5), Ladder(1e-4, 1e-3)):
        random = np.random.default_rng(7)
        starts = random.integers(0, problem.accelerators, (problem.size, 5))
        found, loads = temper(problem, starts, scale, 3, ladder, random)
        for column, load in zip(found.T, loads, strict=True):
            yield f"tempered up to {ladder.hot}: {row(column)} at {load:.6g}"


def _nets(problem: Problem) -> Iterable[tuple[tuple[int, ...], float]]:
    return zip(problem.nets, problem.costs.tolist(), strict=True)


def _bits(members: Any) -> str:
    return "".join(str(int(each)) for each in members)


def row(numbers: Iterable[int]) -> str:
    """Return whole numbers with spaces between them."""
    return " ".join(str(int(each)) for each in numbers)
