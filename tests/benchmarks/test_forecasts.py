"""The comparison of forecasts with measurements: its layouts, its figures and its page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import grammar
from benchmarks.forecasts.cases import CALIBRATED, MODELS, Case, cases
from benchmarks.forecasts.measured import Compared, append_compared, kendall_tau, quantile, read_compared
from benchmarks.forecasts.page import BEGIN, END, write_page

if TYPE_CHECKING:
    from pathlib import Path


def test_there_are_enough_layouts() -> None:
    """At least sixty, each a spec without errors and with a name of its own."""
    found = [each for model in MODELS for each in cases(model)]
    assert len(found) >= 60
    assert len({(each.model, each.name) for each in found}) == len(found)
    for each in (*cases("mlp"), Case("lenet", CALIBRATED)):
        reading = grammar.read("case.tfdeploy", text=each.text)
        assert reading.spec is not None, [one.message for one in reading.diagnostics]
        assert reading.spec.clones.count == each.clones


def test_figures() -> None:
    """Errors, quantiles and the agreement of two orders."""
    one = Compared("m", "2 clones", 1.1, (0.9, 1.0, 1.2), 1.0)
    assert one.error == pytest.approx(0.1)
    assert one.noise == pytest.approx(0.3)
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert quantile([float(each) for each in range(1, 21)], 0.95) == 19.0
    assert kendall_tau([(1, 10), (2, 20), (3, 30)]) == 1.0
    assert kendall_tau([(1, 30), (2, 20), (3, 10)]) == -1.0
    assert kendall_tau([(1, 10), (2, 30), (3, 20)]) == pytest.approx(1 / 3)


def test_the_page(tmp_path: Path) -> None:
    """The last measurement of a layout counts, and only the part between the comments is replaced."""
    results, page = tmp_path / "compared.jsonl", tmp_path / "forecasts.md"
    for forecast in (2.0, 1.0):
        append_compared(results, Compared("mlp", "1 clone, 1 thread", forecast, (1.0, 1.25), 1.0))
    append_compared(results, Compared("mlp", "2 clones, 1 thread", 4.0, (2.0,), 1.0))
    page.write_text(f"above\n{BEGIN}old\n{END}below\n", encoding="utf-8")
    write_page(page, read_compared(results), "a machine")
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"above\n{BEGIN}")
    assert text.endswith(f"{END}below\n")
    assert "old" not in text
    assert "| mlp | 1 clone, 1 thread | 1.00 s | 1.12 s | -11.1% | 22.2% |" in text
    assert "| mlp | 2 | 11.1% | 1.00 | +12.5% |" in text
