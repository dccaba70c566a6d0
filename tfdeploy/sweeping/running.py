"""The processes of trials, several at once, each on a part of the cores and GPUs that no other has."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from attrs import define, field, frozen

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from tfdeploy.runtime.launch import task_processes
from tfdeploy.runtime.launch.launcher import GRACE, POLL
from tfdeploy.runtime.launch.task_processes import Log, TaskProcess
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.membership.membership import GPUS
from tfdeploy.runtime.records.files import writing
from tfdeploy.runtime.stop import StopSignals
from tfdeploy.sweeping.sweep import Sweep, Trial

NVIDIA = Path("/proc/driver/nvidia/gpus")
"""Where NVIDIA's driver lists the GPUs of the machine."""

_ERROR = re.compile(r"(?:error\[TFD\d{3}\]|Error): .*")
_SIGNALS = {130, 143}
"""Exit codes of runs that a signal has ended, which go on when they are started again."""


@frozen
class Part:
    """A part of the machine."""

    cores: frozenset[int] | None = None  # the numbers of its cores; None for all
    # The names of its GPUs, as CUDA_VISIBLE_DEVICES takes them; None for all.
    gpus: tuple[str, ...] | None = None


def visible_gpus(environment: Mapping[str, str] = os.environ, driver: Path = NVIDIA) -> list[str]:
    """Return the GPUs that this process may use: those of CUDA_VISIBLE_DEVICES, else all."""
    given = environment.get(GPUS)
    if given is not None:
        return [each.strip() for each in given.split(",") if each.strip()]
    return [str(at) for at, _ in enumerate(driver.iterdir())] if driver.is_dir() else []


def parts(count: int, cores: Sequence[int], gpus: Sequence[str], *, needed: int) -> list[Part]:
    """Part the machine.

    Returns:
        Parts of equal sizes, without overlap; what does not go round is left out. The only part has all.

    Raises:
        RunError: If a part would have no core, or too few GPUs.
    """
    if count == 1:
        return [Part()]
    for what, there, least in (("cores", len(cores), 1), ("GPUs", len(gpus), needed)):
        if there // count < least:
            raise RunError(errors.parts_too_small(count=count, what=what, there=there, needed=least))
    wide, each = len(cores) // count, len(gpus) // count
    return [
        Part(
            frozenset(cores[at * wide : (at + 1) * wide]),
            tuple(gpus[at * each : (at + 1) * each]) if gpus else None,
        )
        for at in range(count)
    ]


@define
class _Running:
    """A trial that runs."""

    trial: Trial
    part: Part
    child: TaskProcess
    log: Log
    error: list[str] = field(factory=list)


@define
class Runner:
    """Runs trials."""

    sweep: Sweep
    command: Callable[[Trial], list[str]]  # returns the arguments of `tfdeploy` for a trial
    parts: list[Part]  # the parts of the machine; as many trials run at once
    stop: StopSignals
    # Is called with each trial that has ended, and the seconds that it has taken.
    on_end: Callable[[Trial, float], None]
    running: list[_Running] = field(factory=list)

    def run(self, trials: Iterator[Trial]) -> None:
        """Run trials as they come; those that run when a signal comes are ended after a checkpoint.

        Args:
            trials: Is asked for the next trial when a part is free, so that it may depend on the results of
                those before.
        """
        more = True
        with ExitStack() as stack:
            pipe = stack.enter_context(task_processes.lifeline())
            stack.callback(self._end_all)
            while (more or self.running) and self.stop.received is None:
                free = [each for each in self.parts if all(each is not one.part for one in self.running)]
                trial = next(trials, None) if more and free else None
                if trial is not None:
                    self.running.append(self._start(trial, free[0], pipe))
                    continue
                more = more and not free
                self._look()

    def _start(self, trial: Trial, part: Part, pipe: int) -> _Running:
        environment = dict(os.environ)
        if part.gpus is not None:
            environment[GPUS] = ",".join(part.gpus)
        path = self.sweep.folder / f"{trial.name}.log"
        with writing(path):
            log = Log(path)
        error: list[str] = []

        def hear(line: str, stream: str) -> None:
            log.write(line)
            if stream == "stderr" and not error and _ERROR.match(line):
                error.append(line)

        task = Task("trial", trial.number)
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, part.cores or own)  # of this thread, from which the process has it
        try:
            child = task_processes.start(task, self.command(trial), environment, pipe, hear)
        finally:
            os.sched_setaffinity(0, own)
        return _Running(trial, part, child, log, error)

    def _look(self) -> None:
        """Wait a moment, and note trials that have ended."""
        time.sleep(POLL)
        for each in [one for one in self.running if one.child.ended() is not None]:
            self._ended(each)

    def _ended(self, each: _Running) -> None:
        code, seconds = each.child.process.wait(), each.child.lived
        each.child.wait_for_output()
        each.log.close()
        self.running.remove(each)
        failure = None
        if code and code not in _SIGNALS:
            failure = each.error[0] if each.error else task_processes.describe_exit(code)
        self.sweep.note(each.trial, failure)
        trial = next(one for one in self.sweep.record.trials if one.number == each.trial.number)
        if self.stop.received is None:
            self.on_end(trial, seconds)

    def _end_all(self) -> None:
        """End what still runs: it writes its checkpoint, or is killed after a while."""
        task_processes.stop([each.child for each in self.running], GRACE)
        for each in self.running[:]:
            each.log.close()
            self.sweep.look_again(each.trial)
