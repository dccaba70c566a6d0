"""Changes the number of tasks of a cluster that a launcher has started, by a file in the run directory.

`tfdeploy scale` writes what is wanted, and the launcher writes into the same file what there was before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from attrs import evolve, frozen

from compiler.compatibility import changing_job
from dsl import ir
from dsl.diagnostics import RunError, SpecError
from dsl.errors import cluster as errors
from dsl.files.typed_json import BadRecord, Count, JsonRecord, read_record
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.files import write_atomically

POLL, PATIENCE = 0.1, 10.0


@frozen
class ScaleRequest(JsonRecord):
    """What is wanted, and what came of it."""

    job: str
    tasks: Count  # the number of its tasks that is wanted
    before: Count | None = None  # the number that it had when the launcher has changed it; None before that


class Scaling:
    """The launcher's side.

    Args:
        spec: The spec of the run. Nothing is done if no job of it has a number of tasks that changes.
    """

    def __init__(self, spec: ir.Spec) -> None:
        self._path = None if changing_job(spec) is None else RunDirectory.of(spec).scale
        if self._path is not None:
            self._path.unlink(missing_ok=True)  # of a run that was killed

    def answer(self, change: Callable[[ScaleRequest], int]) -> None:
        """Do what is wanted, if something is; `change` returns how many tasks there were."""
        found = None if self._path is None else _read(self._path)
        if self._path is not None and found is not None and found.before is None:
            write_atomically(self._path, evolve(found, before=change(found)).to_json())


def _read(path: Path) -> ScaleRequest | None:
    try:
        return read_record(path, ScaleRequest)
    except (OSError, BadRecord):
        return None


def scale(spec: ir.Spec, job: str, tasks: int, *, runs: bool) -> int:
    """Let a job of a cluster that was launched have another number of tasks.

    Raises:
        SpecError: If the job cannot have that number.
        RunError: If no launcher runs the spec, or it does not answer.
    """
    changing = changing_job(spec)
    if changing is None or changing.name != job:
        found = next((each for each in spec.devices.jobs if each.name == job), None)
        at = spec.devices.span if found is None else found.span_of("tasks") or found.span
        raise SpecError([errors.fixed_tasks(at, job=job, there=found is not None)])
    if not (changing.least or 0) <= tasks <= changing.tasks:
        span = changing.span_of("tasks")
        raise SpecError([errors.beyond_range(span, job=job, tasks=tasks, written=changing.span_of_tasks)])
    path = RunDirectory.of(spec).scale
    if not runs:
        raise RunError(errors.not_launched(directory=str(path.parent)))
    write_atomically(path, ScaleRequest(job, tasks).to_json())
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            answer = _read(path)
            if answer is not None and answer.before is not None:
                return answer.before
            time.sleep(POLL)
    finally:
        path.unlink(missing_ok=True)
    raise RunError(errors.launcher_silent(seconds=f"{PATIENCE:.0f} s"))
