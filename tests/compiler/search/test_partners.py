"""Components that share nothing, and gradients that are joined with their operators."""

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
from compiler.search.search import _Best, join_backward, pack_components, search
from compiler.search.tempering import Ladder, temper


def workload(edges: dict[str, str], together: dict[str, int] | None = None) -> Workload:
    """Return operators with the readers of each; small letters are forward ones, capitals backward ones."""
    names = list(edges)
    return Workload(
        tuple(
            Operator(
                name,
                1.0,
                1.0,
                1.0,
                1.0,
                tuple(names.index(each) for each in readers),
                backward=name.isupper(),
                together=(together or {}).get(name),
            )
            for name, readers in edges.items()
        ),
        2,
        9.0,
    )


def joined(edges: dict[str, str], together: dict[str, int] | None = None) -> list[str] | None:
    """Return the operators of each joined group, as words."""
    found = workload(edges, together)
    problem = gather(found)
    parts = join_backward(found, problem)
    if parts is None:
        return None
    words = [""] * (int(parts.max()) + 1)
    for name, group in zip(edges, problem.group_of, strict=True):
        words[parts[group]] += name
    return words


CHAIN = {"a": "bB", "b": "cC", "c": "C", "C": "B", "B": "A", "A": ""}


@pytest.mark.parametrize(
    ("edges", "together", "groups"),
    [
        # A gradient is with the last operator that it reads from. Those that read from none are with the
        # gradients that they read from, if these are with any.
        (CHAIN, {}, ["aBA", "b", "cC"]),
        ({"a": "bB", "b": "c", "c": "", "C": "B", "B": ""}, {}, ["aB", "b", "c", "C"]),
        # That of what many have read is with the first of them, or it would have to come before itself.
        (
            {"m": "bc", "a": "bB", "b": "cC", "c": "", "C": "BM", "B": "M", "M": ""},
            {},
            ["m", "aBM", "bC", "c"],
        ),
        # What is last follows from who reads what, and not from the order of operators.
        ({name: CHAIN[name] for name in reversed(CHAIN)}, {}, ["ABa", "Cc", "b"]),
        # What a workload says stays.
        (CHAIN, {"a": 1, "A": 1, "b": 2, "B": 2}, ["aA", "bB", "cC"]),
        # Nothing is joined without gradients, or if all have their operators, or without operators.
        ({"a": "b", "b": ""}, {}, None),
        ({"a": "A", "A": ""}, {"a": 1, "A": 1}, None),
        ({"A": "B", "B": ""}, {}, None),
        ({"a": "", "A": ""}, {}, ["a", "A"]),  # nothing says that they belong together
    ],
)
def test_gradients_are_joined_with_their_operators(
    edges: dict[str, str], together: dict[str, int], groups: list[str] | None
) -> None:
    """By who reads what, unless a workload says it."""
    assert joined(edges, together) == groups


def test_a_search_begins_with_pieces_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is improved, the best split of joined groups is among the placements."""
    split: list[list[int]] = []
    monkeypatch.setattr("compiler.search.search._cycles", lambda _: 0)
    or_split = _Best.or_split
    monkeypatch.setattr(
        _Best,
        "or_split",
        lambda best, problem, parts, hurry: (
            split.append(parts.tolist()) or or_split(best, problem, parts, hurry)
        ),
    )
    found = search(workload(CHAIN))
    assert split == [[0, 1, 2, 2, 0, 0], [0, 1, 2, 3, 4, 5]]
    assert found.max_load < 6.0  # that of all operators on one device
    split.clear()
    search(workload({"a": "b", "b": ""}))
    assert split == [[0, 1]]


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
