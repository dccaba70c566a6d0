"""Sends what a run writes to its tracker: `python -m tfdeploy.runtime.track.deliver DIRECTORY`.

The history in the run directory is the queue: it is read from the line up to which the tracker has got it,
a few lines at a time, so that nothing is lost and memory is bounded, however slow the tracker is. Standard
input is a pipe from the run; when that ends, what is left is sent, and at the first failure after that the
process ends.
"""

from __future__ import annotations

import math
import os
import re
import select
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from attrs import define, evolve

from dsl.files.regular import read_regular
from dsl.files.typed_json import read_record
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.records.result import Result
from tfdeploy.runtime.track.tracking import Tracked, TrackedRun, Tracker

AT_ONCE = 200
PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""The seconds between two looks at the history, and the most after failures in a row."""

NICE = 10
"""By how much the process stands back behind those that train."""

LONGEST_FAULT = 300
UNDELIVERED = 1


@define
class Delivery:
    """What is sent of a run."""

    directory: RunDirectory
    record: Tracked
    _tracker: Tracker | None = None

    @classmethod
    def of(cls, directory: Path) -> Delivery:
        """Return the delivery of a run directory; raises OSError or BadRecord without a record."""
        files = RunDirectory(directory)
        return cls(files, read_record(files.track, Tracked))

    def attempt(self, *, ended: bool) -> bool:
        """Send what is there, and if the run has ended its files; return whether nothing has failed."""
        run = TrackedRun(self.directory.path, self.record.title)
        try:
            if self._tracker is None:
                tracker = made(self.record)
                self._note(run=str(tracker.begin(run, self.record.run)))
                self._tracker = tracker
            for lines, records in batches(self.directory.history, self.record.lines):
                if records:
                    self._tracker.log(records)
                self._note(lines=lines)
            if ended:
                self._tracker.end(run)
                self._note(complete=True)
        except Exception as fault:  # noqa: BLE001 whatever the code of others raises
            self._note(fault=f"{type(fault).__name__}: {' '.join(str(fault).split())}"[:LONGEST_FAULT])
            return False
        if self.record.fault is not None:
            self._note(fault=None)
        return True

    def _note(self, **changes: Any) -> None:
        self.record = evolve(self.record, **changes)
        write_atomically(self.directory.track, self.record.to_json(indent=1) + "\n")


def made(record: Tracked) -> Tracker:
    """Return the tracker that a record names."""
    given = {name: value for name, value in record.arguments.items() if name != "wait"}
    if record.name == "mlflow":
        return MLflow(**given)
    module, _, name = str(given.pop("function")).partition(":")
    if record.folder not in sys.path:
        sys.path.insert(0, record.folder)
    tracker: Tracker = getattr(import_module(module), name)(**given)
    return tracker


def batches(history: Path, start: int) -> Iterator[tuple[int, list[HistoryRecord]]]:
    """Yield the records of a history after the first `start` lines, some at once, with the lines so far."""
    count, records = 0, list[HistoryRecord]()
    with suppress(FileNotFoundError), history.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            count += 1
            record = HistoryRecord.read(line) if count > start else None
            records += [] if record is None else [record]
            if len(records) == AT_ONCE:
                yield count, records
                start, records = count, []
    if count > start:
        yield count, records


LONGEST = 500
"""The most characters of a parameter, which all versions of MLflow take."""
MOST = 100
"""The most parameters that MLflow takes at once."""
SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "GIT_PYTHON_REFRESH": "quiet",
}
"""What MLflow reads from the environment: what fails is tried again here, so that it is known why."""

STATES = {"finished": "FINISHED", "interrupted": "KILLED", "terminated": "KILLED"}
_STRANGE = re.compile(r"[^\w./ -]")


class MLflow:
    """A run on a server of MLflow.

    Args:
        server: The address of the server; None for that of MLFLOW_TRACKING_URI.
        experiment: The name of the experiment; None for the title of the run.
        model: Whether the model is sent.
    """

    def __init__(
        self, server: str | None = None, experiment: str | None = None, *, model: bool = True
    ) -> None:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        self._entities: Any = import_module("mlflow.entities")
        self._client: Any = import_module("mlflow").MlflowClient(tracking_uri=server)
        self._experiment, self._model, self._run = experiment, model, ""

    def begin(self, run: TrackedRun, known: str | None) -> str:
        """Make the experiment and the run, unless they are there, and send the settings."""
        client, name = self._client, self._experiment or run.title
        if known is None:
            found = client.get_experiment_by_name(name)
            number = found.experiment_id if found is not None else client.create_experiment(name)
            known = client.create_run(number, run_name=run.directory.name).info.run_id
        else:
            client.update_run(known, status="RUNNING")
        self._run = str(known)
        kept = set(client.get_run(self._run).data.params)
        params = [
            self._entities.Param(_key(path), text[:LONGEST])
            for path, text in run.settings.items()
            if _key(path) not in kept  # MLflow does not let a parameter change
        ]
        for at in range(0, len(params), MOST):
            client.log_batch(self._run, params=params[at : at + MOST])
        return self._run

    def log(self, records: Sequence[HistoryRecord]) -> None:
        """Send the scores, under the names of their splits."""
        metrics = [
            self._entities.Metric(
                _key(f"{record.split}/{name}"), value, _milliseconds(record.time), record.step
            )
            for record in records
            for name, value in record.figures().items()
            if math.isfinite(value)
        ]
        for at in range(0, len(metrics), 1000):
            self._client.log_batch(self._run, metrics=metrics[at : at + 1000])

    def end(self, run: TrackedRun) -> None:
        """Send the spec as it ran, the placement map, the result and the model, and close the run."""
        files = run.files
        wanted = [files.spec, files.placement, files.result, *([files.model] if self._model else [])]
        for each in wanted:
            if each.exists():
                self._client.log_artifact(self._run, str(each))
        result = Result.read(read_regular(files.result)) if files.result.exists() else None
        self._client.set_terminated(self._run, STATES[result.status] if result is not None else "FAILED")


def _key(name: str) -> str:
    """Return a name as MLflow takes it."""
    return _STRANGE.sub("_", name)


def _milliseconds(time: str) -> int:
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def main(words: list[str]) -> int:
    """Send a run until it has ended and everything is sent.

    Args:
        words: The run directory, and the seconds that are left after the end of the run; 0 for no limit.
    """
    os.nice(NICE)
    delivery, limit = Delivery.of(Path(words[0])), float(words[1])
    pause, ended = PAUSE, False
    while True:
        sound = delivery.attempt(ended=ended)
        if ended:
            return 0 if sound else UNDELIVERED
        pause = PAUSE if sound else min(2 * pause, LONGEST_PAUSE)
        ended = bool(select.select([sys.stdin], [], [], pause)[0])
        if ended and limit:
            timer = threading.Timer(limit, partial(os._exit, UNDELIVERED))
            timer.daemon = True
            timer.start()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
