"""The progress bar on a terminal of 80 columns."""

import re
from io import StringIO

import pytest
from rich.console import Console

from tests.support import make_result
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.result import Seconds
from tfdeploy.runtime.show.console import BarReporter, LineReporter
from tfdeploy.runtime.show.reporting import StepRange

TIME_LEFT = re.compile(r" (?:-:--:--|\d:\d\d:\d\d) ")


def last_line(width: int, **metrics: float) -> str:
    """Return the last line that a bar of a width has shown of a step."""
    file = StringIO()
    bar = BarReporter(Console(file=file, width=width, force_terminal=True, color_system=None, markup=False))
    bar.started(StepRange(0, 21940, "runs/digits"))
    bar.logged(HistoryRecord(5050, "train", 0.0767, 0.0767, {"accuracy": 0.96875, **metrics}, 70429.0))
    bar.ended()
    last = next(each for each in reversed(file.getvalue().splitlines()) if "step  5,050/21,940" in each)
    return last.removeprefix("\x1b[2K").rstrip("\r")


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_the_time_that_is_left_is_there_however_little_room_there_is(width: int) -> None:
    """The bar gives way first and the figures then; the line is no wider than the terminal."""
    last = last_line(width, top_5=0.5)
    assert TIME_LEFT.search(last)
    assert "step  5,050/21,940 " in last
    assert "loss" in last
    assert len(last) <= width


def test_where_there_is_room_for_nothing_else_the_line_ends_with_the_time_that_is_left() -> None:
    """Neither a bar nor scores leave a trace."""
    assert re.fullmatch(rf"step  5,050/21,940{TIME_LEFT.pattern} *", last_line(28))


def test_a_line_says_how_long_a_run_waits_for_data() -> None:
    """The share of the time is a percentage, and what can be done stands behind it."""
    file = StringIO()
    LineReporter(Console(file=file, width=120)).waiting(0.25, "add `cache`")
    assert file.getvalue() == "waiting for data 25 % of the time: add `cache`\n"


def test_the_lines_of_a_run() -> None:
    """Steps are as wide as the last; a speed that is not known is left out."""
    file = StringIO()
    reporter = LineReporter(Console(file=file, width=40, markup=False))
    reporter.started(StepRange(7, 12000, "runs/x", left_out=1500))
    reporter.logged(HistoryRecord(50, "train", 0.5, 0.5, {"accuracy": 0.75}, 1234.5))
    reporter.logged(HistoryRecord(60, "train", 0.25, 0.25))
    reporter.evaluated(HistoryRecord(1000, "test", 0.5, 0.5), 1797)
    assert file.getvalue().splitlines() == [
        "going on from step 7, training to step 12,000 in runs/x",
        "the last 1,500 examples do not fill a step and are left out",
        "step     50/12,000  loss 0.5000  accuracy 0.7500  1,234 examples/s",
        "step     60/12,000  loss 0.2500  ",
        "step 1,000  test: loss 0.5000  (1,797 examples)",
    ]


@pytest.mark.parametrize("kind", [LineReporter, BarReporter])
def test_a_run_that_has_reached_its_last_step_says_so(kind: type[LineReporter]) -> None:
    """Then there is no line about training, and no bar, which steps and scores could move."""
    file = StringIO()
    reporter = kind(Console(file=file, width=80, force_terminal=True, color_system=None, markup=False))
    reporter.started(StepRange(1200, 1200, "runs/x", left_out=3))
    reporter.stepped(1200)
    reporter.ended()
    assert file.getvalue() == "runs/x has reached step 1,200: nothing is left to train\n"


def test_the_summary_is_below_an_empty_line() -> None:
    """Labels have the same width; an interrupted run has another colour than one that has finished."""
    shown = []
    for status in ("finished", "interrupted"):
        file = StringIO()
        out = Console(file=file, width=80, force_terminal=True, color_system="standard", highlight=False)
        LineReporter(out).finished(
            make_result(status=status, steps=5, loss=None, seconds=Seconds(1.0, None, 0.0))
        )
        shown.append(file.getvalue().splitlines())
    assert shown[0] == [
        "",
        "\x1b[1;32mfinished at step 5\x1b[0m",
        "  time        compile 1.00 s",
        "  to go on    run the same command again",
        "  directory   runs/x",
    ]
    assert shown[1][1] == "\x1b[1;33minterrupted at step 5\x1b[0m"


def test_figures_are_whole_where_there_is_little_room() -> None:
    """The bar gives way to the step, the loss, the metrics and the speed."""
    last = last_line(80)
    assert "step  5,050/21,940 " in last
    assert " loss 0.0767  accuracy 0.9688  70,429 examples/s" in last
