"""Reports for people: a progress bar on a terminal, lines of text elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Column
from rich.text import Text

from compiler.report.terminal import device_table, headline
from compiler.report.view import View
from dsl.formats.cells import printable
from tfdeploy.progress import busy
from tfdeploy.runtime.show.reporting import Reporter, duration, number, percent, scores, speed, summary_rows

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from rich.progress import Task

    from compiler.mapping.records import PlacementMap
    from dsl.diagnostics import Diagnostic
    from tfdeploy.runtime.records.history import HistoryRecord
    from tfdeploy.runtime.records.result import Result
    from tfdeploy.runtime.show.reporting import StepRange

REFRESH = 0.1


class TameConsole(Console):
    """A console on which no text can control the terminal, whatever it is from."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yield what is written."""
        for each in super().render(renderable, options):
            yield each if each.control else Segment(printable(each.text), each.style)


def console(*, color: bool) -> Console:
    """Return a rich console on standard output."""
    terminal = sys.stdout.isatty()
    return TameConsole(
        force_terminal=terminal or None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=not terminal,
    )


def make_reporter(*, color: bool, color_errors: bool, quiet: bool = False) -> Reporter:
    """Return the reporter that suits standard output."""
    out = console(color=color)
    kind = SummaryReporter if quiet else BarReporter if out.is_interactive else LineReporter
    return kind(out, color_errors=color_errors)


class LineReporter(Reporter):
    """A line for each logged step and each evaluation."""

    def __init__(self, out: Any, *, color_errors: bool = False) -> None:
        self.out = out
        self.color_errors = color_errors
        self.steps: StepRange | None = None

    def warn(self, diagnostic: Diagnostic) -> None:
        """Show a diagnostic on standard error."""
        from dsl.formats.render import human

        sys.stderr.write("\n".join(human([diagnostic], color=self.color_errors)) + "\n")
        sys.stderr.flush()

    def busy(self, doing: str, *, plain: bool = True) -> AbstractContextManager[object]:
        """Write a line on standard error, if it takes longer than a moment."""
        return busy(doing, plain=plain)

    def compiled(self, placement: PlacementMap, model: str, seconds: float) -> None:
        """Show what was compiled, and the totals of its placement."""
        view = View(width=self.out.width, color=not self.out.no_color)
        lines = [*headline(placement), "", *device_table(placement, view)]
        text = "\n".join([f"{model}, compiled in {duration(seconds)}", *lines, "", ""])
        self.out.file.write(printable(text, color=not self.out.no_color))
        self.out.file.flush()

    def started(self, steps: StepRange) -> None:
        """Write from which step to which the run trains."""
        self.steps = steps
        if steps.first >= steps.last:
            self.note(f"{steps.directory} has reached step {number(steps.first)}: nothing is left to train")
            return
        origin = f"going on from step {number(steps.first)}, " if steps.first else ""
        self.note(f"{origin}training to step {number(steps.last)} in {steps.directory}")
        if steps.left_out:
            self.note(f"the last {number(steps.left_out)} examples do not fill a step and are left out")

    def logged(self, line: HistoryRecord) -> None:
        """Write a line."""
        last = number(self.steps.last) if self.steps is not None else ""
        width = len(last)
        self.note(
            f"step {number(line.step):>{width}}/{last}  {scores(line)}  {speed(line.examples_per_second)}"
        )

    def waiting(self, share: float, remedy: str) -> None:
        """Write a line."""
        self.note(f"waiting for data {percent(share)} of the time: {remedy}")

    def evaluated(self, line: HistoryRecord, examples: int) -> None:
        """Write a line."""
        self.note(f"step {number(line.step)}  {line.split}: {scores(line)}  ({number(examples)} examples)")

    def finished(self, result: Result) -> None:
        """Write a summary."""
        self.note("")
        self.summarize(result)

    def summarize(self, result: Result) -> None:
        """Write the lines of the summary."""
        title, *rows = summary_rows(result)
        self.out.print(title[1], style="bold green" if result.status == "finished" else "bold yellow")
        for label, text in rows:
            self.note(f"  {label:<11} {text}")

    def note(self, text: str) -> None:
        """Write a line, which may contain the answer of a server."""
        self.out.print(text, soft_wrap=True)
        self.out.file.flush()


class SummaryReporter(Reporter):
    """The summary at the end, and errors."""

    def __init__(self, out: Any, *, color_errors: bool = False) -> None:
        self._lines = LineReporter(out, color_errors=color_errors)

    def warn(self, diagnostic: Diagnostic) -> None:
        """Show an error, and no warning."""
        if diagnostic.is_error:
            self._lines.warn(diagnostic)

    def finished(self, result: Result) -> None:
        """Write the summary."""
        self._lines.summarize(result)


class BarReporter(LineReporter):
    """A progress bar with step, loss, metrics, speed and the time that is left."""

    _progress: Any = None
    _task: Any = None
    _shown = 0.0

    def busy(self, doing: str, *, plain: bool = True) -> AbstractContextManager[object]:
        """Show a spinner."""
        del plain
        status: AbstractContextManager[object] = self.out.status(f"{doing} ...")
        return status

    def started(self, steps: StepRange) -> None:
        """Show the bar."""
        super().started(steps)
        if steps.first >= steps.last:
            return
        last = number(steps.last)
        fixed = Column(no_wrap=True)
        self._progress = Progress(  # if there is little room, first the bar gets shorter, then the scores
            TextColumn(f"step {{task.completed:>{len(last)},.0f}}/{last}", markup=False, table_column=fixed),
            TimeRemainingColumn(table_column=fixed),
            BarColumn(bar_width=None, table_column=Column(ratio=1, no_wrap=True)),
            ScoresColumn(table_column=Column()),
            console=self.out,
            transient=True,
            redirect_stderr=sys.stderr.isatty(),  # a file gets its warnings itself
            expand=True,
        )
        self._task = self._progress.add_task("train", total=steps.last, completed=steps.first, said="")
        self._progress.start()

    def stepped(self, step: int) -> None:
        """Move the bar, a few times a second at the most."""
        now = time.monotonic()
        if self._progress is not None and now - self._shown >= REFRESH:
            self._shown = now
            self._progress.update(self._task, completed=step)

    def logged(self, line: HistoryRecord) -> None:
        """Show the scores beside the bar."""
        if self._progress is not None:
            said = f"{scores(line)}  {speed(line.examples_per_second)}"
            self._progress.update(self._task, completed=line.step, said=said)

    def ended(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class ScoresColumn(ProgressColumn):
    """Loss, metrics and speed in one line, cut off at the end if there is too little room."""

    def render(self, task: Task) -> Text:
        """Return the scores of the task."""
        return Text(str(task.fields["said"]), no_wrap=True, overflow="ellipsis")
