"""Specs with one thing broken: nothing crashes, and one cause gives one error."""

from __future__ import annotations

import time
from collections import Counter

import grammar
from dsl.formats.render import render
from tests.folders import ROOT
from tests.grammar.broken_specs import mutants

SPECS = [*(ROOT / "examples").glob("*.tfdeploy"), *(ROOT / "tests/grammar/specs").glob("*.tfdeploy")]


def test_broken_specs_give_few_errors_and_never_a_crash() -> None:
    """Of 400 mutants three quarters of the broken ones give exactly one error, and none more than three."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(SPECS)]
    errors: Counter[int] = Counter()
    slowest = 0.0
    for text in mutants(texts, 400, 20):
        start = time.process_time()
        reading = grammar.read("mutant.tfdeploy", text=text)
        render(reading.diagnostics)
        slowest = max(slowest, time.process_time() - start)
        number = sum(each.is_error for each in reading.diagnostics)
        assert (reading.spec is None) == (number > 0)
        errors[number] += 1
    broken = sum(times for number, times in errors.items() if number)
    assert broken > 200
    assert errors[1] >= 0.75 * broken
    assert max(errors) <= 3
    assert slowest < 0.5
