"""Gradients joined with the operators that they belong to, where a workload does not say so."""

from __future__ import annotations

import pytest

from compiler.search.problem import Operator, Workload, gather
from compiler.search.search import _Best, join_backward, search


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


def test_a_gradient_is_with_the_last_operator_that_it_reads_from() -> None:
    """Those that read from none are with the gradients that they read from, if these are with any."""
    assert joined(CHAIN) == ["aBA", "b", "cC"]
    assert joined({"a": "bB", "b": "c", "c": "", "C": "B", "B": ""}) == ["aB", "b", "c", "C"]


def test_the_gradient_of_what_many_have_read_is_with_the_first_of_them() -> None:
    """Otherwise it would have to come before itself."""
    many = {"m": "bc", "a": "bB", "b": "cC", "c": "", "C": "BM", "B": "M", "M": ""}
    assert joined(many) == ["m", "aBM", "bC", "c"]


def test_the_order_of_operators_in_a_workload_does_not_matter() -> None:
    """What is last follows from who reads what."""
    backwards = {name: CHAIN[name] for name in reversed(CHAIN)}
    assert joined(backwards) == ["ABa", "Cc", "b"]


def test_what_a_workload_says_stays() -> None:
    """A gradient that has to be with an operator is not joined with another one."""
    together = {"a": 1, "A": 1, "b": 2, "B": 2}
    assert joined(CHAIN, together) == ["aA", "bB", "cC"]


def test_without_gradients_of_their_own_nothing_is_joined() -> None:
    """Neither if all have their operators, nor if there is nothing to join them with."""
    assert joined({"a": "b", "b": ""}) is None
    assert joined({"a": "A", "A": ""}, {"a": 1, "A": 1}) is None
    assert joined({"A": "B", "B": ""}) is None
    assert joined({"a": "", "A": ""}) == ["a", "A"]  # nothing says that they belong together


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
