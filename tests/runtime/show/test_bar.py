"""The progress bar on a terminal of 80 columns."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console

from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.show.console import BarReporter, LineReporter
from tfdeploy.runtime.show.reporting import StepRange

TIME_LEFT = re.compile(r" (?:-:--:--|\d:\d\d:\d\d) ")


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_the_time_that_is_left_is_there_however_little_room_there_is(width: int) -> None:
    """The bar gives way first and the figures then; the line is no wider than the terminal."""
    file = StringIO()
    bar = BarReporter(Console(file=file, width=width, force_terminal=True, color_system=None, markup=False))
    bar.started(StepRange(0, 21940, "runs/digits"))
    bar.logged(HistoryRecord(5050, "train", 0.0767, 0.0767, {"accuracy": 0.96875, "top_5": 0.5}, 70429.0))
    bar.ended()
    last = next(each for each in reversed(file.getvalue().splitlines()) if "loss" in each)
    assert TIME_LEFT.search(last)
    assert "step  5,050/21,940 " in last
    assert len(last.removeprefix("\x1b[2K").rstrip("\r")) <= width


def test_a_line_says_how_long_a_run_waits_for_data() -> None:
    """The share of the time is a percentage, and what can be done stands behind it."""
    file = StringIO()
    LineReporter(Console(file=file, width=120)).waiting(0.25, "add `cache`")
    assert file.getvalue() == "waiting for data 25 % of the time: add `cache`\n"


def test_figures_are_whole_where_there_is_little_room() -> None:
    """The bar gives way to the step, the loss, the metrics and the speed."""
    file = StringIO()
    bar = BarReporter(Console(file=file, width=80, force_terminal=True, color_system=None, markup=False))
    bar.started(StepRange(0, 21940, "runs/digits"))
    bar.logged(HistoryRecord(5050, "train", 0.0767, 0.0767, {"accuracy": 0.96875}, 70429.0))
    bar.ended()
    last = next(each for each in reversed(file.getvalue().splitlines()) if "loss" in each)
    assert "step  5,050/21,940 " in last
    assert " loss 0.0767  accuracy 0.9688  70,429 examples/s" in last
