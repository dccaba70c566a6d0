"""What a tracker is, what it has got of a run, `track.json`, and the process that sends the run to it.

The run starts that process, `deliver.py`, and asks it at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from attrs import evolve, frozen

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import running as errors
from dsl.files.typed_json import BadRecord, Count, JsonRecord, read_record
from dsl.schema.functions import TRACKERS
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.records.found import settings_of
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.show.reporting import Reporter


@frozen
class Tracked(JsonRecord):
    """What a tracker has got of a run; its process writes the record, and nobody else while that runs.

    Attributes:
        name: The function of the language that names the tracker: `mlflow` or `python`.
        arguments: Its arguments.
        folder: The folder in which the module of a Python function is searched first.
        title: What the run is called there by default: the name of its model.
        run: How the tracker itself names the run; None if it has not begun it.
        lines: The number of lines of the history that it has got.
        complete: Whether it has got everything, the files of the run's end too.
        fault: Why the last attempt to send something has failed; None if it has not.
    """

    name: str
    arguments: Mapping[str, Any]
    folder: str
    title: str
    run: str | None = None
    lines: Count = 0
    complete: bool = False
    fault: str | None = None


@frozen
class TrackedRun:
    """A run as a tracker sees it."""

    directory: Path
    title: str

    @property
    def settings(self) -> dict[str, str]:
        """The values of its spec by the paths that `--set` takes."""
        return settings_of(self.files.spec)

    @property
    def files(self) -> RunDirectory:
        """The paths of its files."""
        return RunDirectory(self.directory)


class Tracker(Protocol):
    """Sends a run elsewhere. Whatever a method raises, it is called again later with the same."""

    def begin(self, run: TrackedRun, known: str | None) -> str:
        """Begin to track a run, or go on with it.

        Args:
            known: What this method has returned for the run before; None for a new run.

        Returns:
            How the tracker names the run.
        """

    def log(self, records: Sequence[HistoryRecord]) -> None:
        """Take down lines of the history, at most some hundred at once."""

    def end(self, run: TrackedRun) -> None:
        """Take down the files and the outcome of a run that has ended."""


MODULE = "tfdeploy.runtime.track.deliver"
AT_A_SIGNAL = 3.0
"""The most seconds that a run waits that a signal has ended."""


def require_tracker(spec: ir.Spec) -> None:
    """Raise RunError if a spec has a tracker whose package is not installed."""
    call = spec.train.track
    if call is not None and call.name == "mlflow" and find_spec("mlflow") is None:
        raise RunError(errors.extra_missing(package="mlflow", extra="mlflow", why="`track = mlflow()`"))


@contextmanager
def tracking(
    spec: ir.Spec, directory: RunDirectory, reporter: Reporter, signalled: Callable[[], bool]
) -> Iterator[None]:
    """Send what a run writes to its tracker during the block; at its end, wait for what is left."""
    call = spec.train.track
    if call is None:
        yield
        return
    record = _record(spec, call, directory)
    write_atomically(directory.track, record.to_json(indent=1) + "\n")
    wait = float(record.arguments["wait"] or 0)
    process = subprocess.Popen(
        command(directory.path, wait),
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        with reporter.busy(f"sending what is left to {call.name}", plain=False):
            with suppress(subprocess.TimeoutExpired):
                process.wait(min(wait, AT_A_SIGNAL) if signalled() else wait)
            process.kill()
            process.wait()
        missing = undelivered(directory)
        if missing is not None:
            reporter.warn(missing)


def command(directory: Path, limit: float) -> list[str]:
    """Return the command that sends a run, with `limit` seconds after the end of the run; 0 for no limit."""
    return [sys.executable, "-P", "-m", MODULE, os.fspath(directory.absolute()), str(limit)]


def tracked(directory: RunDirectory) -> Tracked | None:
    """Return what the tracker of a run has got; None for a run without one."""
    try:
        return read_record(directory.track, Tracked)
    except (BadRecord, OSError):
        return None


def undelivered(directory: RunDirectory) -> Diagnostic | None:
    """Return the warning about what the tracker of a run has not got; None if it has got everything."""
    record = tracked(directory)
    if record is None or record.complete:
        return None
    lines = directory.history.read_bytes().count(b"\n") if directory.history.exists() else 0
    return errors.not_delivered(
        None,
        tracker=record.name,
        sent=min(record.lines, lines),
        total=lines,
        reason=record.fault or "it was too slow",
        directory=str(directory.path),
    )


def _record(spec: ir.Spec, call: ir.Call, directory: RunDirectory) -> Tracked:
    """Return what the tracker has got of a run that goes on; nothing of a new run or with another tracker."""
    (function,) = (each for each in TRACKERS if each.name == call.name)
    positional = dict(zip([each.name for each in function.positional], call.args, strict=False))
    defaults = {each.name: each.default for each in function.arguments if each.name != "function"}
    folder = str(Path(spec.path).parent.absolute())
    given = {**defaults, **positional, **call.kwargs}
    new = Tracked(call.name, given, folder, spec.model.name)
    before = tracked(directory)
    if before is None or _whose(before) != _whose(new):
        return new
    lines = directory.history.read_bytes().count(b"\n") if directory.history.exists() else 0
    return evolve(new, run=before.run, lines=min(before.lines, lines))


def _whose(record: Tracked) -> tuple[object, ...]:
    """Return what tells one tracker from another: not how long a run waits for it, and what it sends."""
    given = {name: value for name, value in record.arguments.items() if name not in {"wait", "model"}}
    return record.name, given, record.title
