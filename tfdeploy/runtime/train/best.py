"""The best evaluation of a run, by a score that the spec names, and how many evaluations ago it was."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

from attrs import define

from dsl.errors import running as errors
from dsl.files.regular import system_reason
from dsl.files.typed_json import BadRecord, read_record, to_json
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.records.result import LOSS, Best, Goal

if TYPE_CHECKING:
    from pathlib import Path

    from dsl import ir
    from dsl.diagnostics import Diagnostic
    from tfdeploy.runtime.records.history import HistoryRecord, SplitName


@define
class BestTracker:
    """Compares the evaluations of one split.

    Attributes:
        goal: Whether the highest or the lowest value is the best.
        score: The name of the score: `loss`, or a metric.
        patience: The number of evaluations without a better one after which training ends; None for no limit.
        path: The file in which the best evaluation is kept.
        best: The best evaluation so far.
        since: The number of evaluations since the best one.
    """

    goal: Goal
    score: str
    patience: int | None
    path: Path
    best: Best | None = None
    since: int = 0

    @classmethod
    def of(cls, train: ir.Train, path: Path) -> Self | None:
        """Return the tracker that a spec asks for, with the file `path`; None if it asks for none.

        Args:
            train: The block `train` of the spec.
            path: The file in which the best evaluation is kept.
        """
        if train.best is None:
            return None
        call = train.best
        goal: Goal = "highest" if call.name == "highest" else "lowest"
        return cls(goal, str(call.args[0] if call.args else call.kwargs["score"]), train.patience, path)

    @property
    def is_over(self) -> bool:
        """Whether training is to end because the patience is exhausted."""
        return self.patience is not None and self.since >= self.patience

    def compare(self, step: int, loss: float, metrics: Mapping[str, float]) -> bool:
        """Compare an evaluation with the best one, and return whether it is better.

        Args:
            step: The step of the evaluation.
            loss: Its loss.
            metrics: Its metrics by name.
        """
        value = {LOSS: loss, **metrics}.get(self.score, math.nan)
        if not self._beats(value):
            self.since += 1
            return False
        self.best = Best(step, self.goal, self.score, value)
        self.since = 0
        return True

    def _beats(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self.best is None:
            return True
        return value > self.best.value if self.goal == "highest" else value < self.best.value

    def save(self) -> None:
        """Write the best evaluation to its file, once its checkpoint is on the disk."""
        if self.best is not None:
            write_atomically(self.path, to_json(self.best) + "\n")

    def resume(
        self,
        last_step: int,
        records: list[HistoryRecord],
        split: SplitName,
        warn: Callable[[Diagnostic], None],
    ) -> None:
        """Continue with the best evaluation that an earlier process has kept.

        One of another score, or of a step that has to be made again, is ignored.

        Args:
            last_step: The step of the checkpoint from which the run continues.
            records: The history up to that step.
            split: The split whose evaluations are compared.
            warn: Called with a warning if the file cannot be read.
        """
        found = read_best(self.path, warn)
        if found is None:
            return
        if (found.goal, found.score) == (self.goal, self.score) and found.step <= last_step:
            self.best = found
            self.since = sum(each.split == split and each.step > found.step for each in records)


def read_best(path: Path, warn: Callable[[Diagnostic], None]) -> Best | None:
    """Return the best evaluation that a run has kept in the file `path`.

    Args:
        path: The file.
        warn: Called with the warning if the file cannot be read.

    Returns:
        The evaluation; None if there is no file, or if it cannot be read, in which case `warn` is called.
    """
    try:
        return read_record(path, Best)
    except FileNotFoundError:
        return None
    except (BadRecord, OSError) as fault:
        reason = f"cannot be read: {system_reason(fault)}" if isinstance(fault, OSError) else str(fault)
        warn(errors.record_damaged(path=str(path), reason=reason))
    return None
