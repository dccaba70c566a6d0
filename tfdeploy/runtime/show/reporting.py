"""What a run reports while it goes on, and figures of a run in words.

`Reporter` itself shows nothing; those of `console.py` print.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.mapping.records import PlacementMap
    from dsl.diagnostics import Diagnostic
    from tfdeploy.runtime.records.history import HistoryRecord
    from tfdeploy.runtime.records.result import Evaluated, Result, SplitResult


@frozen
class StepRange:
    """The steps that a process is to make."""

    first: int
    last: int
    directory: str
    left_out: int = 0  # the number of examples at the end of the last epoch that do not fill a step


class Reporter:
    """Is called with the progress of a run. This one ignores everything, also warnings."""

    def warn(self, diagnostic: Diagnostic) -> None:
        """A warning has come up, which does not end the run."""

    def note(self, text: str) -> None:
        """A sentence about the run or its cluster, such as a task that is missing or is back."""

    def busy(self, doing: str, *, plain: bool = True) -> AbstractContextManager[object]:
        """Return the context manager of an activity that takes long.

        Args:
            doing: What is being done, such as `compiling`.
            plain: Whether a line of text may say so if there is no terminal for a spinner.
        """
        del doing, plain
        return nullcontext()

    def compiled(self, placement: PlacementMap, model: str, seconds: float) -> None:
        """The graph has been built."""

    def started(self, steps: StepRange) -> None:
        """Training is about to begin."""

    def stepped(self, step: int) -> None:
        """A step was made."""

    def logged(self, line: HistoryRecord) -> None:
        """A step was logged."""

    def waiting(self, share: float, remedy: str) -> None:
        """Steps have waited for data for a large share of the time. Called once."""

    def evaluated(self, line: HistoryRecord, examples: int) -> None:
        """A split was evaluated."""

    def ended(self) -> None:
        """The last step has been made, or an error has ended the run."""

    def finished(self, result: Result) -> None:
        """The run has ended with `result`."""


class Quiet(Reporter):
    """Ignores everything but warnings, with which `tell` is called."""

    def __init__(self, tell: Callable[[Diagnostic], None]) -> None:
        self._tell = tell

    def warn(self, diagnostic: Diagnostic) -> None:
        """Pass on a warning."""
        self._tell(diagnostic)


MINUTE = 60
HOUR = 3600
LONG = 10


def number(count: int) -> str:
    """Return a count with its digits in groups: `12,345`."""
    return f"{count:,}"


def duration(seconds: float) -> str:
    """Return a duration in words: `0.42 s`, `12.3 s`, `3 min 20 s`, `2 h 5 min`."""
    if round(seconds, 2) < LONG:
        return f"{seconds:.2f} s"
    if round(seconds, 1) < MINUTE:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} min {whole % MINUTE} s"
    return f"{whole // HOUR} h {whole % HOUR // MINUTE} min"


def percent(share: float) -> str:
    """Return a share of one as a percentage: `38 %`."""
    return f"{share * 100:.0f} %"


def speed(examples_per_second: float | None) -> str:
    """Return a speed, or an empty text if it is None."""
    return "" if examples_per_second is None else f"{number(round(examples_per_second))} examples/s"


def scores(of: HistoryRecord | SplitResult) -> str:
    """Return loss and metrics in words."""
    return "  ".join([f"loss {of.loss:.4f}", *(f"{name} {value:.4f}" for name, value in of.metrics.items())])


def summary_rows(result: Result) -> list[tuple[str, str]]:
    """Return the summary at the end of a run: a title, then pairs of a label and a text."""
    seconds = result.seconds
    early = ", stopped early" if result.stopped_early and result.status == "finished" else ""
    rows = [("", f"{result.status} at step {number(result.steps)}{early}")]
    if result.best is not None:
        best = result.best
        rows.append(("best", f"{best.score} {best.value:.4f} at step {number(best.step)}"))
    rows += [(name, f"{scores(of)}  ({number(of.examples)} examples)") for name, of in _splits(result)]
    if result.examples_per_second is not None:
        rows.append(("speed", speed(result.examples_per_second)))
    parts = [("compile", seconds.compile), ("first step", seconds.first_step), ("training", seconds.train)]
    parts += [("evaluation", seconds.evaluate), ("checkpoints", seconds.checkpoint)]
    rows.append(("time", ", ".join(f"{name} {duration(spent)}" for name, spent in parts if spent)))
    if seconds.data_waiting is not None and seconds.train:
        share = percent(min(seconds.data_waiting / seconds.train, 1.0))
        rows.append(("data", f"waited for {duration(seconds.data_waiting)}, {share} of the training"))
    if result.model is not None:
        rows.append(("model", result.model))
    else:
        rows.append(("to go on", "run the same command again"))
    rows.append(("directory", result.directory))
    return rows


def evaluation_lines(found: Evaluated) -> list[str]:
    """Return the scores of a checkpoint, a line for each split."""
    width = max(map(len, found.splits), default=0)
    lines = [f"{found.checkpoint}, step {number(found.step)}"]
    lines += [
        f"  {name:<{width}}  {scores(of)}  ({number(of.examples)} examples)"
        for name, of in found.splits.items()
    ]
    return lines


def _splits(result: Result) -> list[tuple[str, SplitResult]]:
    found = (("validation", result.validation), ("test", result.test))
    return [(name, of) for name, of in found if of is not None]
