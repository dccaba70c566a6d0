"""`history.jsonl`: a line per logged step and per evaluation, appended as they come.

A process that is killed can leave a line cut short, and lines of steps after the last checkpoint. Both are
taken out before a run goes on, so that the file always reads as the story of one run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from attrs import field, frozen

from dsl.diagnostics import RunError
from dsl.files.regular import read_regular
from dsl.files.typed_json import DIGITS, OPTIONAL, BadRecord, Count, Measured, parse_record, to_json
from tfdeploy.runtime.records.files import write_atomically, write_fault

if TYPE_CHECKING:
    from pathlib import Path

    from tfdeploy.runtime.records.lock import DirectoryGuard

WRITING = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOFOLLOW

SplitName = Literal["train", "validation", "test"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@frozen
class HistoryRecord:
    """A logged step, or an evaluation after it.

    `loss` includes the regularisation term, `data_loss` does not; `examples_per_second` is the speed since
    the last logged step, or that of the evaluation. `data_waiting` is the part of the time since the last
    logged step in which the examples of a step were not there yet; None if that is not known. `worker` is
    the worker that made the step, if workers update independently of each other.
    """

    step: Count
    split: SplitName
    loss: Measured
    data_loss: Measured
    metrics: Mapping[str, Measured] = field(factory=dict)
    examples_per_second: float | None = field(default=None, metadata={DIGITS: 1})
    learning_rate: float | None = field(default=None, metadata={OPTIONAL: True})
    data_waiting: float | None = field(default=None, metadata={DIGITS: 4, OPTIONAL: True})
    worker: str | None = field(default=None, metadata={OPTIONAL: True})
    time: str = field(factory=_now)

    def to_json(self) -> str:
        """Return the line as it stands in the file; numbers that are not finite become null."""
        return to_json(self)

    @classmethod
    def read(cls, text: bytes) -> HistoryRecord | None:
        """Return the line that `text` is, None if it is broken."""
        try:
            return parse_record(text, cls)
        except BadRecord:
            return None


class History:
    """The file, open for appending; `records` are those that were there and are kept.

    With the `presence` of its directory it is found out before each line whether the file is still there.
    Raises RunError if it cannot be written.
    """

    def __init__(self, path: Path, guard: DirectoryGuard | None = None) -> None:
        self.path = path
        self.guard = guard
        self.records: list[HistoryRecord] = []
        self._descriptor: int | None = None

    def repair(self, last_step: int) -> int:
        """Keep the lines up to `last_step`, in whole; return how many broken ones there were.

        One broken line at the end is what a kill leaves, and is not counted.
        """
        try:
            texts = read_regular(self.path).splitlines()
        except FileNotFoundError:
            return 0
        except OSError as fault:
            raise RunError(write_fault(self.path, fault)) from fault
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
        """Return the last line of a split among those that were there."""
        return next((record for record in reversed(self.records) if record.split == split), None)

    def append(self, record: HistoryRecord) -> None:
        """Add a line, in one write."""
        self.require()
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, WRITING, 0o644)
            data = f"{record.to_json()}\n".encode()
            written = os.write(self._descriptor, data)
            if written < len(data):
                os.write(self._descriptor, data[written:])
        except OSError as fault:
            raise RunError(write_fault(self.path, fault)) from fault

    def require(self) -> None:
        """Raise RunError if the file, or the run directory with it, was removed or renamed."""
        if self.guard is None:
            return
        if self._descriptor is None:
            self.guard.require()
        else:
            self.guard.require_file(self.path, self._descriptor)

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        if self._descriptor is not None:
            try:
                os.fsync(self._descriptor)
            except OSError as fault:
                raise RunError(write_fault(self.path, fault)) from fault

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
