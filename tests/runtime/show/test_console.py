"""Which reporter there is for which output, and when a bar is moved."""

import sys
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from dsl.diagnostics import Diagnostic, Severity
from tests.placement_maps import make_map
from tests.support import make_result
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.show import console as module
from tfdeploy.runtime.show.console import BarReporter, LineReporter, make_reporter
from tfdeploy.runtime.show.reporting import Quiet, Reporter, StepRange


class Terminal(StringIO):
    """A file that says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        """Say so."""
        return self._is_terminal


@pytest.mark.parametrize("color", [False, True])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_terminal_gets_a_bar_and_a_file_lines(
    monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, color: bool
) -> None:
    """Colours are as they were asked for; texts are no markup; lines of a file are not broken."""
    for name in ("TERM", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdout", Terminal(is_terminal=is_terminal))
    made = make_reporter(color=color, color_errors=not color)
    assert type(made) is (BarReporter if is_terminal else LineReporter)
    assert isinstance(made, LineReporter)
    assert made.color_errors is not color
    assert made.out.no_color is not color
    assert made.out.is_terminal is is_terminal
    assert made.out.soft_wrap is not is_terminal
    made.note("[bold]1,234[/bold] :smile:\x1b[2J")
    text = made.out.file.getvalue()
    assert "[bold]1,234[/bold] :smile:" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("color", [False, True])
def test_a_warning_is_on_standard_error(capsys: pytest.CaptureFixture[str], *, color: bool) -> None:
    """With its code, and with colours if standard error gets some."""
    LineReporter(Console(file=StringIO()), color_errors=color).warn(Diagnostic("TFD730", "the loss"))
    said = capsys.readouterr()
    assert said.out == ""
    assert "TFD730" in said.err
    assert said.err.endswith("\n")
    assert ("\x1b[" in said.err) is color


@pytest.mark.parametrize("color", [False, True])
def test_what_was_compiled_is_shown_with_its_placement(*, color: bool) -> None:
    """The model, how long that has taken, and a table of devices as wide as the terminal."""
    file = StringIO()
    out = Console(file=file, width=60, force_terminal=True, no_color=not color)
    LineReporter(out).compiled(make_map(2), "small", 12.34)
    first, *rest = file.getvalue().splitlines()
    assert first == "small, compiled in 12.3 s"
    assert rest[-1] == ""
    assert any("gpu[1]" in each for each in rest)
    assert ("\x1b[" in file.getvalue()) is color
    if not color:
        assert max(map(len, rest)) <= 60


def test_a_bar_is_moved_a_few_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many steps there are; scores move it at once, and its end is the last step."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "REFRESH", 0.125)
    bar = BarReporter(Console(file=StringIO(), width=80, force_terminal=True))
    bar.started(StepRange(7, 1000, "runs/x"))
    (task,) = bar._progress.tasks
    assert (task.completed, task.total, task.fields["said"]) == (7, 1000, "")
    found = []
    for step, passed in ((8, 0.0), (9, 0.0625), (10, 0.0625), (11, 0.0625), (12, 0.25), (13, 5.0)):
        now[0] += passed
        bar.stepped(step)
        found.append(task.completed)
    assert found == [8, 8, 10, 10, 12, 13]
    bar.logged(HistoryRecord(20, "train", 0.5, 0.5, {}, 100.0))
    assert (task.completed, task.fields["said"]) == (20, "loss 0.5000  100 examples/s")
    bar.ended()
    bar.ended()
    bar.stepped(30)
    bar.logged(HistoryRecord(30, "train", 0.5, 0.5))
    assert task.completed == 20


def test_a_spinner_is_for_terminals_and_a_line_for_files(capsys: pytest.CaptureFixture[str]) -> None:
    """What takes long is told in either way, with what is done."""
    file = StringIO()
    with BarReporter(Console(file=file, width=80, force_terminal=True)).busy("building", plain=False):
        pass
    assert "building ..." in file.getvalue()
    with Reporter().busy("building"):
        assert capsys.readouterr() == ("", "")


def test_a_quiet_reporter_passes_warnings_on() -> None:
    """And nothing else."""
    told: list[Diagnostic] = []
    reporter: Any = Quiet(told.append)
    warning = Diagnostic("TFD730", "the loss")
    reporter.warn(warning)
    reporter.note("a note")
    reporter.ended()
    assert told == [warning]


def test_a_summary_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Progress and warnings are left out; errors and the summary are not."""
    monkeypatch.setattr(sys, "stdout", Terminal(is_terminal=True))
    reporter = make_reporter(color=False, color_errors=False, quiet=True)
    reporter.started(StepRange(0, 10, "runs/x"))
    reporter.logged(HistoryRecord(1, "train", 0.5, 0.5))
    reporter.note("a note")
    reporter.warn(Diagnostic("TFD734", "a checkpoint", severity=Severity.WARNING))
    with reporter.busy("building"):
        reporter.ended()
    assert (sys.stdout.getvalue(), capsys.readouterr().err) == ("", "")
    reporter.warn(Diagnostic("TFD730", "the loss"))
    assert "TFD730" in capsys.readouterr().err
    reporter.finished(make_result())
    assert "finished at step 20" in sys.stdout.getvalue().splitlines()[0]
