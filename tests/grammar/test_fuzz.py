"""Specs with one thing broken: nothing crashes, and one cause gives one error."""

from collections import Counter
from cProfile import Profile
from pstats import Stats

import pytest

import grammar
from dsl.formats.render import render
from tests.folders import ROOT
from tests.grammar.broken_specs import mutants

SPECS = [*(ROOT / "examples").glob("*.tfdeploy"), *(ROOT / "tests/grammar/specs").glob("*.tfdeploy")]


@pytest.mark.parametrize("count", [100, pytest.param(400, marks=pytest.mark.full)])
def test_broken_specs_give_few_errors_and_never_a_crash(count: int) -> None:
    """Three quarters of the mutants that are broken give exactly one error, and none more than three."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(SPECS)]
    errors: Counter[int] = Counter()
    for text in mutants(texts, count, 20):
        reading = grammar.read("mutant.tfdeploy", text=text)
        render(reading.diagnostics)
        number = sum(each.is_error for each in reading.diagnostics)
        assert (reading.spec is None) == (number > 0)
        errors[number] += 1
    broken = sum(times for number, times in errors.items() if number)
    assert broken > count / 2
    assert errors[1] >= 0.75 * broken
    assert max(errors) <= 3


def test_broken_specs_cost_little_more_than_whole_ones() -> None:
    """A character of a broken spec takes at most ten times the calls that one of a whole spec takes."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(SPECS)]
    calls_for(texts[0])  # which makes the parser, once
    whole = max(calls_for(text) / len(text) for text in texts)
    assert max(calls_for(text) / len(text) for text in mutants(texts, 20, 21)) < 10 * whole


def calls_for(text: str) -> int:
    """Return how many calls it takes to read a text and to render what is wrong with it."""
    with Profile() as profile:
        render(grammar.read("mutant.tfdeploy", text=text).diagnostics)
    return int(vars(Stats(profile))["total_calls"])
