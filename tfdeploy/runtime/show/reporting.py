"""Who is told what happens in a run. `Reporter` itself says nothing; `console.py` has those that talk."""

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
    """The steps a process is to make: after `first` up to `last`.

    `left_out` are the examples at the end of the last epoch that do not fill a step.
    """

    first: int
    last: int
    directory: str
    left_out: int = 0


class Reporter:
    """Says nothing, of warnings neither."""

    def warn(self, diagnostic: Diagnostic) -> None:
        """Something is amiss that does not end the run."""

    def note(self, text: str) -> None:
        """Something about the cluster: who is missing, who is back, what is started again."""

    def busy(self, doing: str, *, plain: bool = True) -> AbstractContextManager[object]:
        """Return what is to be entered while something takes long; `plain` if a line may be spent on it."""
        del doing, plain
        return nullcontext()

    def compiled(self, placement: PlacementMap, model: str, seconds: float) -> None:
        """The graph is there."""

    def started(self, steps: StepRange) -> None:
        """Training begins."""

    def stepped(self, step: int) -> None:
        """A step was made."""

    def logged(self, line: HistoryRecord) -> None:
        """A step was logged."""

    def waiting(self, share: float, remedy: str) -> None:
        """Steps have waited for data for a good `share` of the time; `remedy` is what helps. Said once."""

    def evaluated(self, line: HistoryRecord, examples: int) -> None:
        """A split was evaluated."""

    def ended(self) -> None:
        """No more steps will be made."""

    def finished(self, result: Result) -> None:
        """The run is over."""


class Quiet(Reporter):
    """Says nothing, and hands warnings on to `tell`."""

    def __init__(self, tell: Callable[[Diagnostic], None]) -> None:
        self._tell = tell

    def warn(self, diagnostic: Diagnostic) -> None:
        """Hand a warning on."""
        self._tell(diagnostic)
