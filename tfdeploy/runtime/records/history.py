"""`history.jsonl`: a line for each logged step and each evaluation, appended as they happen.

A process that is killed can leave an incomplete line, and lines of steps after the last checkpoint. Both are
removed before a run continues, so that the file always reads as the history of one run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from attrs import field, frozen

from dsl.files.regular import read_regular
from dsl.files.typed_json import DIGITS, OPTIONAL, Count, JsonRecord, Measured
from dsl.ir import SplitName
from tfdeploy.runtime.records.files import write_atomically, writing
from tfdeploy.runtime.records.lock import DirectoryGuard

WRITING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@frozen
class HistoryRecord(JsonRecord):
    """A logged step, or an evaluation after it.

    Attributes:
        step: The global step.
        split: The split of the examples: `train` for a step, another one for an evaluation.
        loss: The loss with regularisation.
        data_loss: The loss without regularisation.
        metrics: The values of the metrics by name.
        examples_per_second: The speed since the last logged step, or that of the evaluation.
        learning_rate: The learning rate of the step; that of the first group if groups of weights have
            optimizers of their own.
        learning_rates: The learning rate of each of these groups, by its glob.
        data_waiting: The share of the time since the last logged step, from 0 to 1, in which a step waited
            for its examples; None if it is not known.
        worker: The worker that has made the step, if workers update independently of each other.
        time: When the record was made, in UTC (ISO 8601).
    """

    step: Count
    split: SplitName
    loss: Measured
    data_loss: Measured
    metrics: Mapping[str, Measured] = field(factory=dict)
    examples_per_second: float | None = field(default=None, metadata={DIGITS: 1})
    learning_rate: float | None = field(default=None, metadata={OPTIONAL: True})
    learning_rates: Mapping[str, float] | None = field(default=None, metadata={OPTIONAL: True})
    data_waiting: float | None = field(default=None, metadata={DIGITS: 4, OPTIONAL: True})
    worker: str | None = field(default=None, metadata={OPTIONAL: True})
    time: str = field(factory=_now)

    def figures(self) -> dict[str, float]:
        """Return every number that the line has, by its name in charts."""
        found = {
            "loss": self.loss,
            "data_loss": self.data_loss,
            **self.metrics,
            "learning_rate": self.learning_rate,
            **self.rates_of_groups(),
            "examples_per_second": self.examples_per_second,
            "data_waiting": self.data_waiting,
        }
        return {name: value for name, value in found.items() if value is not None}

    def rates_of_groups(self) -> dict[str, float]:
        """Return the learning rate of each group under the name of its curve: `learning_rate/logits/*`."""
        return {f"learning_rate/{glob}": rate for glob, rate in (self.learning_rates or {}).items()}


class History:
    """The file of the history, to which records are appended. Methods raise RunError if it cannot be written.

    Args:
        guard: Checks before each line that the file and its directory still exist; None for no check.

    Attributes:
        records: The records of earlier processes that `repair` has kept.
    """

    def __init__(self, path: Path, guard: DirectoryGuard | None = None) -> None:
        self.path = path
        self.guard = guard
        self.records: list[HistoryRecord] = []
        self._descriptor: int | None = None

    def repair(self, last_step: int) -> int:
        """Remove damaged lines, and those of steps after `last_step`.

        Returns:
            The number of damaged lines. A last line that is incomplete is not counted, because a killed
            process leaves one.
        """
        with writing(self.path):
            if not self.path.exists():
                return 0
            texts = read_regular(self.path).splitlines()
        found = [HistoryRecord.read(text) for text in texts]
        kept = [
            (record, text)
            for record, text in zip(found, texts, strict=True)
            if record is not None and record.step <= last_step
        ]
        self.records = [record for record, _ in kept]
        write_atomically(self.path, "".join(f"{text.decode()}\n" for _, text in kept))
        return found[:-1].count(None)

    def last(self, split: SplitName) -> HistoryRecord | None:
        """Return the last of `records` that is of a split; None if there is none."""
        return next((record for record in reversed(self.records) if record.split == split), None)

    def append(self, record: HistoryRecord) -> None:
        """Append the line of a record, in one write if the system permits."""
        self.require()
        with writing(self.path):
            if self._descriptor is None:
                self._descriptor = os.open(self.path, WRITING, 0o644)
            data = f"{record.to_json()}\n".encode()
            written = os.write(self._descriptor, data)
            if written < len(data):
                os.write(self._descriptor, data[written:])

    def require(self) -> None:
        """Raise RunError if the file or the run directory was removed or renamed."""
        if self.guard is None:
            return
        if self._descriptor is None:
            self.guard.require()
        else:
            self.guard.require_file(self.path, self._descriptor)

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        if self._descriptor is not None:
            with writing(self.path):
                os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
