"""What is said of a verification, to people and to programs."""

import json
import math
from types import SimpleNamespace
from typing import Any

import pytest

from dsl import ir
from tfdeploy.runtime.verify import report
from tfdeploy.runtime.verify.cases import Case, SelectedCases
from tfdeploy.runtime.verify.compare import Differences
from tfdeploy.runtime.verify.session import Outcome

ADD, RING = ir.Call("add_n"), ir.Call("ring", (), {"chunk": 64})
FIRST = Case("sync", ADD, "shared", (4, 4))
OTHER = Case("sync", RING, "balanced", (8,), pack=64)
AVERAGED = Case("local", ADD, "shared", (3, 5), average_slots=True)
ALONE = Case("async", ADD, "shared", (2,))
TOLERANCE = 1e-5


def outcome(case: Case, *, seconds: float = 1.0, worst: str = "a", **differences: float) -> Outcome:
    """Return the outcome of a case with some differences."""
    return Outcome(
        case,
        Differences(**{"weights": 0.0, "slots": 0.0, "losses": 0.0, **differences}, worst=worst),
        seconds,
    )  # type: ignore[arg-type]  # numbers


def verification(*cases: Case, depends: bool = False, left_out: tuple[tuple[str, int], ...] = ()) -> Any:
    """Return what a report reads of a verification, without the graphs."""
    return SimpleNamespace(
        depends_on_clones=depends,
        selected=SelectedCases(cases, left_out),
        options=SimpleNamespace(steps=5),
        tolerance=TOLERANCE,
        spec=SimpleNamespace(path="a.tfdeploy", update=SimpleNamespace(compress=None)),
    )


def test_the_heading_says_what_is_compared() -> None:
    """The reference is one tower, or the same clones if a step depends on how the batch is cut."""
    lines = list(report.heading(verification(FIRST)))
    assert lines[0] == "1 combination, 5 steps each, held against one tower on the whole batch;"
    head = "mode   aggregate               variables   cases  weights    slots   losses  evaluated"
    assert lines[2:] == ["", head]
    (first, *_) = report.heading(verification(FIRST, OTHER, depends=True))
    assert first.startswith("2 combinations, 5 steps each, held against the same clones with add_n")


def test_a_row_has_the_largest_differences_of_its_cases() -> None:
    """Neighbours with the same mode, aggregation and variables are one row, which says if it fails."""
    found = report.rows(
        [
            outcome(FIRST, weights=1e-6, evaluated=TOLERANCE),
            outcome(Case("sync", ADD, "shared", (8,)), weights=1e-7, slots=2e-6),
            outcome(OTHER, losses=2e-5),
            outcome(ALONE),
        ],
        TOLERANCE,
    )
    ring = "sync   ring(chunk = 64)        balanced        1  0.0e+00  0.0e+00  2.0e-05    0.0e+00"
    assert list(found) == [
        "sync   add_n                   shared          2  1.0e-06  2.0e-06  0.0e+00    1.0e-05",
        f"{ring}  beyond the tolerance",
        "async                          shared          1  0.0e+00  0.0e+00  0.0e+00    0.0e+00",
    ]
    assert list(report.rows([], TOLERANCE)) == []


def test_the_summary_of_a_verification_that_agrees() -> None:
    """A difference as large as the tolerance agrees; times add up."""
    outcomes = [outcome(FIRST, slots=TOLERANCE, seconds=1.5), outcome(OTHER, seconds=2.5)]
    assert list(report.summary(verification(left_out=(("it is slow", 1), ("no", 2))), outcomes)) == [
        "",
        "left out: 1 combination, it is slow",
        "left out: 2 combinations, no",
        f"largest relative difference 1.0e-05 (a, {FIRST.title}), tolerance 1e-05, 4 s",
        "all agree",
    ]


@pytest.mark.parametrize(("failed", "listed", "more"), [(1, 1, []), (20, 20, []), (22, 20, ["and 2 more"])])
def test_what_differs_is_listed(failed: int, listed: int, more: list[str]) -> None:
    """The first twenty are named one by one, and the others counted."""
    outcomes = [outcome(AVERAGED, worst="b", losses=math.inf)] * failed + [outcome(OTHER)]
    lines = list(report.summary(verification(), outcomes))
    title = "mode = local, aggregate = add_n, variables shared, batch = [3, 5], slots averaged"
    assert lines[1 : 1 + listed] == [f"differs by inf in b: {title}"] * listed
    assert lines[1 + listed : -2] == more
    assert lines[-1] == f"{failed} of {failed + 1} combinations differ"


def test_the_json_of_a_verification() -> None:
    """Every case has its settings and differences; what is infinite is null, and does not agree."""
    outcomes = [outcome(OTHER, weights=math.inf, seconds=0.12345), outcome(AVERAGED, evaluated=1e-6)]
    found = json.loads(report.to_json(verification(left_out=(("no", 2),)), outcomes))
    cases = found.pop("cases")
    assert found == {
        "format_version": "1.0",
        "spec": "a.tfdeploy",
        "tolerance": TOLERANCE,
        "agrees": False,
        "left_out": [{"reason": "no", "cases": 2}],
    }
    assert cases[0] == {
        "mode": "sync",
        "aggregate": "ring(chunk = 64)",
        "variables": "balanced",
        "clones": 1,
        "batches": [8],
        "pack": 64,
        "average_slots": False,
        "worst": "a",
        "seconds": 0.123,
        "weights": None,
        "slots": 0.0,
        "losses": 0.0,
        "evaluated": 0.0,
    }
    assert cases[1]["evaluated"] == 1e-6
    assert (cases[1]["average_slots"], cases[1]["clones"], cases[1]["batches"]) == (True, 2, [3, 5])
    assert json.loads(report.to_json(verification(), outcomes[1:]))["agrees"]
