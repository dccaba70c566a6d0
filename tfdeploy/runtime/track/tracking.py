"""The process that sends a run to its tracker, as the run sees it: it is started, and asked at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.typed_json import BadRecord, read_record
from dsl.schema.functions import TRACKERS
from tfdeploy.runtime.records.files import write_atomically
from tfdeploy.runtime.track.tracker import Tracked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsl import ir
    from dsl.diagnostics import Diagnostic
    from tfdeploy.runtime.records.directory import RunDirectory
    from tfdeploy.runtime.show.reporting import Reporter

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
    """Return the command that sends a run.

    Args:
        directory: The run directory.
        limit: The seconds that it has after the end of the run; 0 for no limit.
    """
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
