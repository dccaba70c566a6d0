"""The search finds the best placements of small graphs, and known good ones of published graphs."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

from benchmarks.placement.files import places_of, read_json, workload_of
from benchmarks.placement.generated import translation
from compiler.search.coarsen import coarsen
from compiler.search.pieces import split_into_pieces
from compiler.search.problem import (
    HOST,
    Operator,
    Workload,
    _ordered,
    gather,
    join_inseparable,
    measure_loads,
    merge,
)
from compiler.search.search import lower_bound, search
from tests.compiler.search.taken import measure_bytes

PUBLISHED = Path(__file__).parent / "published"


def small(seed: int, *, nodes: int = 7, accelerators: int = 2, host: bool = False) -> Workload:
    """Return a random graph in the order of its nodes, of which 1 and 3 have to be together."""
    random = np.random.default_rng(seed)
    return Workload(
        tuple(
            Operator(
                f"node_{at}",
                float(random.uniform(0.5, 3.0)),
                float(random.uniform(1.0, 6.0)),
                float(random.integers(1, 4)),
                float(random.uniform(0.0, 1.0)),
                tuple(int(each) for each in range(at + 1, nodes) if random.random() < 0.4),
                together="pair" if at in (1, 3) else None,
            )
            for at in range(nodes)
        ),
        accelerators,
        capacity=8.0,
        host=host,
    )


def best_of_all(workload: Workload) -> float:
    """Return the lowest max-load of all placements that are possible."""
    found = np.inf
    devices = (*range(workload.accelerators), *((HOST,) if workload.host else ()))
    for places in product(devices, repeat=len(workload.operators)):
        if places[1] != places[3] or max(measure_bytes(workload, places)) > workload.capacity:
            continue
        if any(
            place != HOST and not each.supported
            for each, place in zip(workload.operators, places, strict=True)
        ):
            continue
        found = min(found, max(measure_loads(workload, places)))
    return float(found)


@pytest.mark.parametrize(
    ("graph", "expert", "load"),
    [
        ("bert24_inference", "bert24", 20.084),
        ("bert24_training", "bert24", 49.405),
        ("gnmt_inference", "gnmt", 46.208),
    ],
)
def test_the_measure_gives_the_published_figures(graph: str, expert: str, load: float) -> None:
    """Experts' splits have the loads that were published, by the definition and by the search's tables."""
    content = read_json(PUBLISHED / f"{graph}.json")
    workload = workload_of(content)
    places = places_of(content, read_json(PUBLISHED / "experts" / f"{expert}.json"))
    assert round(max(measure_loads(workload, places)), 3) == load
    problem = gather(workload)
    devices = np.empty(problem.size, dtype=np.int64)
    devices[problem.group_of] = np.array(places) % (workload.accelerators + 1)
    assert problem.loads(devices) == pytest.approx(measure_loads(workload, places))


@pytest.mark.parametrize(
    ("graph", "published"),
    [
        ("bert24_inference", 17.778),
        ("bert24_training", 39.943),
        pytest.param("gnmt_inference", 31.783, marks=pytest.mark.full),
    ],
)
def test_published_results_are_reached(graph: str, published: float) -> None:
    """No published algorithm has a lower max-load, and the bound is below what was found."""
    workload = workload_of(read_json(PUBLISHED / f"{graph}.json"))
    found = search(workload)
    assert found.max_load <= published
    assert found.lower_bound <= found.max_load
    assert max(measure_bytes(workload, found.places)) <= workload.capacity


@pytest.mark.parametrize("host", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_small_graphs_get_the_best_placement(seed: int, host: bool) -> None:
    """Of all placements of seven nodes the best is found, and no bound is above it."""
    workload = small(seed, host=host)
    best = best_of_all(workload)
    found = search(workload)
    assert found.missing == 0
    assert found.max_load == pytest.approx(best)
    assert found.places[1] == found.places[3]
    problem = gather(workload)
    for known in (best, 1.5 * best, np.inf):
        assert lower_bound(problem, known) <= best + 1e-9


def test_what_accelerators_cannot_run_is_on_the_host() -> None:
    """An operator without support is on the host, and the rest is placed as well as can be."""
    workload = small(5, host=True)
    operators = list(workload.operators)
    operators[2] = evolve(operators[2], supported=False)
    workload = evolve(workload, operators=tuple(operators))
    found = search(workload)
    assert found.places[2] == HOST
    assert found.max_load == pytest.approx(best_of_all(workload))


def test_memory_decides_where_it_is_scarce() -> None:
    """The result fits into a memory that the best placement without a bound does not fit into."""
    workload = small(2, nodes=8)
    total = sum(each.bytes for each in workload.operators)
    roomy = search(evolve(workload, capacity=total))
    tight = evolve(workload, capacity=float(np.ceil(total / 2)))
    assert max(measure_bytes(workload, roomy.places)) > tight.capacity
    found = search(tight)
    assert found.missing == 0
    assert max(measure_bytes(tight, found.places)) <= tight.capacity
    assert found.max_load == pytest.approx(best_of_all(tight))
    assert found.max_load > roomy.max_load


def test_what_does_not_fit_misses_as_little_as_possible() -> None:
    """Without room for everything, the bytes that are missing are those beyond the room that there is."""
    workload = small(3)
    total = sum(each.bytes for each in workload.operators)
    found = search(evolve(workload, capacity=(total - 1) / 2))
    assert found.missing == pytest.approx(1.0)


def test_no_result_is_worse_than_a_start() -> None:
    """A placement that is given is improved or returned."""
    workload = small(1)
    given = (0, 1, 0, 1, 0, 1, 0)
    assert search(workload, (given,)).max_load <= max(measure_loads(workload, given))
    with pytest.raises(ValueError, match="together"):
        search(workload, ((0, 1, 0, 0, 0, 0, 0),))
    with pytest.raises(ValueError, match="at least one"):
        search(evolve(workload, accelerators=0))


@pytest.mark.parametrize("seed", range(3))
def test_the_split_into_pieces_is_the_best_of_its_kind(seed: int) -> None:
    """No assignment in which devices follow each other along all edges has a lower max-load."""
    workload = evolve(small(seed, accelerators=3), capacity=10.0)
    problem = gather(workload)
    best = np.inf
    for devices in product(range(3), repeat=problem.size):
        if any(devices[first] > devices[second] for first, second in problem.order):
            continue
        if problem.excess(np.array(devices)) == 0:
            best = min(best, float(problem.loads(np.array(devices)).max()))
    pieces = split_into_pieces(problem, 100)
    assert pieces is not None
    assert float(problem.loads(pieces).max()) == pytest.approx(best)
    again = split_into_pieces(problem, 100, best * (1 + 1e-9))
    assert again is not None
    assert (again == pieces).all()


def test_no_piece_takes_more_memory_than_a_device_has() -> None:
    """The long operator at the end has one of three short ones beside it, because three are too large."""
    chain = tuple(
        Operator(str(at), seconds, 3 * seconds, 1.0, 0.1, (at + 1,) if at < 3 else ())
        for at, seconds in enumerate((1.0, 1.0, 1.0, 9.0))
    )
    pieces = [
        split_into_pieces(gather(Workload(chain, 2, capacity, host=False)), 100)
        for capacity in (3.0, 2.0, 1.0)
    ]
    assert [None if each is None else each.tolist() for each in pieces] == [[0, 0, 0, 1], [0, 0, 1, 1], None]


def test_joined_groups_cost_what_their_parts_cost() -> None:
    """A placement of a coarse problem has the loads of the same placement of the whole."""
    problem = gather(workload_of(translation(3, training=True, accelerators=3)))
    random = np.random.default_rng(0)
    apart = random.integers(0, 3, problem.size)
    parts = coarsen(problem, 10, random, apart)
    coarse = merge(problem, parts)
    assert coarse.size < problem.size
    assert all(len(set(apart[parts == part])) == 1 for part in range(coarse.size))
    devices = random.integers(0, 4, coarse.size)
    assert coarse.loads(devices) == pytest.approx(problem.loads(devices[parts]))


@pytest.mark.parametrize(
    ("source", "reader", "forward", "order"),
    [
        ((0, False), (0, True), [True, True], set()),
        ((0, False), (1, False), [True, True], {(0, 1)}),
        ((0, False), (1, True), [True, False], {(0, 1)}),
        ((0, False), (1, True), [True, True], set()),
        ((0, True), (1, False), [True, True], set()),
        ((0, True), (1, True), [True, True], set()),
        ((0, True), (1, True), [True, False], {(1, 0)}),
        ((0, True), (1, True), [False, True], {(1, 0)}),
        ((0, True), (1, True), [False, False], {(1, 0)}),
    ],
)
def test_the_order_of_groups_is_that_of_the_forward_pass(
    source: tuple[int, bool], reader: tuple[int, bool], forward: list[bool], order: set[tuple[int, int]]
) -> None:
    """Backward operators go the other way, and say nothing of two groups that have forward ones."""
    assert _ordered(source, reader, dict(enumerate(forward))) == order


def test_what_costs_too_much_to_separate_is_joined() -> None:
    """Groups are joined only if no placement below the given max-load has them apart."""
    workload = small(4)
    dear = tuple(evolve(each, sends=12 * each.sends) for each in workload.operators)
    workload = evolve(workload, operators=dear)
    problem = gather(workload)
    known = best_of_all(workload) * 1.1
    parts = join_inseparable(problem, known)
    for devices in product(range(2), repeat=problem.size):
        if problem.loads(np.array(devices)).max() <= known:
            assert all(len({devices[at] for at in np.nonzero(parts == part)[0]}) == 1 for part in set(parts))
    assert len(set(parts)) < problem.size
