"""What a run reports while it goes on. `Reporter` itself shows nothing; those of `console.py` print."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.mapping.records import PlacementMap
    from dsl.diagnostics import Diagnostic
    from tfdeploy.runtime.records.history import HistoryRecord
    from tfdeploy.runtime.records.result import Result


@frozen
class StepRange:
    """The steps that a process is to make.

    Attributes:
        first: The global step before the first of them.
        last: The global step after the last of them.
        directory: The run directory.
        left_out: The number of examples at the end of the last epoch that do not fill a step.
    """

    first: int
    last: int
    directory: str
    left_out: int = 0


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
        """The graph has been built.

        Args:
            placement: Its placement map.
            model: What is said of the model in one line.
            seconds: The seconds that building has taken.
        """

    def started(self, steps: StepRange) -> None:
        """Training is about to begin."""

    def stepped(self, step: int) -> None:
        """A step was made."""

    def logged(self, line: HistoryRecord) -> None:
        """A step was logged."""

    def waiting(self, share: float, remedy: str) -> None:
        """Steps have waited for data for a large share of the time. Called once.

        Args:
            share: The share, from 0 to 1.
            remedy: What can be done about it.
        """

    def evaluated(self, line: HistoryRecord, examples: int) -> None:
        """A split was evaluated.

        Args:
            line: The scores, the split, and the global step at which it was evaluated.
            examples: The number of examples of the split.
        """

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
