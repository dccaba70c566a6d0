"""A run on a cluster of processes of this machine, from starting the tasks to the outcome of the run."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from attrs import evolve, frozen

import grammar
from compiler.compatibility import replication_of
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.files.typed_json import parse_record
from dsl.formats.cells import without_color
from tfdeploy.runtime.adapted import require_one_graph
from tfdeploy.runtime.launch.launcher import POLL, Launcher, Stream, TaskCommand
from tfdeploy.runtime.launch.task_processes import Log
from tfdeploy.runtime.membership.addresses import Membership, Task, tasks_of
from tfdeploy.runtime.membership.membership import (
    find_membership,
    is_server,
    knows_addresses,
    may_be_chief,
    meet_others,
    require_trainer,
    with_run_secret,
)
from tfdeploy.runtime.plans import RunOptions, folder_of, plan_of, require_trainable
from tfdeploy.runtime.records.directory import RunDirectory
from tfdeploy.runtime.records.effective import effective_text
from tfdeploy.runtime.records.files import writing
from tfdeploy.runtime.records.result import Result
from tfdeploy.runtime.stop import BASE, Interrupted, StopSignals, Terminated, temporary_folder

FAULT = 2


class TaskOutput:
    """Writes the output of all tasks line by line, with the name of the task before each line.

    Args:
        emit: Writes a line to one of the two streams. It is called for one line at a time.
        quiet: Whether the launcher itself writes nothing.

    Attributes:
        results: The results as JSON of the tasks that have written one: the chief, and before it others that
            were the chief. Neither they nor those of workers that never were it are passed on.
        closed: The error of `emit`, if the reader of the output has closed it.
    """

    def __init__(self, spec: ir.Spec, emit: Callable[[str, Stream], None], *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.results: dict[Task, str] = {}
        self.closed: BrokenPipeError | None = None
        self._may_be_chief = partial(may_be_chief, spec)
        self._width = max(len(each.ref) for each in tasks_of(spec))
        self._spec, self._logs = spec, dict[Task, Log]()
        self._emit = emit
        self._one_line = threading.Lock()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Append what each task writes to a file of its own in the run directory during the block."""
        directory = RunDirectory.of(self._spec)
        directory.make(self._spec)
        tasks = tasks_of(self._spec)
        with ExitStack() as stack:
            with writing(directory.logs):
                directory.logs.mkdir(exist_ok=True)
                for each in tasks:
                    path = directory.logs / f"{each.job}-{each.index}.log"
                    self._logs[each] = stack.enter_context(closing(Log(path)))
            stack.callback(self._logs.clear)
            yield

    def on_line(self, task: Task, line: str, stream: Stream) -> None:
        """Handle a line that a task has written."""
        log = self._logs.get(task)
        if log is not None:
            log.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}  {without_color(line)}")
        found = result_in(line) if stream == "stdout" and self._may_be_chief(task) else None
        if found is None:
            self._pass_on(f"{task.ref:<{self._width}} | {line}", stream)
        elif found.is_whole:
            self.results.pop(task, None)
            self.results[task] = line

    @property
    def result(self) -> str | None:
        """The newest result."""
        return next(reversed([*self.results.values()]), None)

    def say(self, text: str) -> None:
        """Write a line of the launcher's own."""
        if not self._quiet:
            self._pass_on(text, "stdout")

    def _pass_on(self, text: str, stream: Stream) -> None:
        try:
            with self._one_line:
                self._emit(text, stream)
        except BrokenPipeError as closed:
            self.closed = closed


def result_in(line: str) -> Result | None:
    """Return the result object of a run that a line is; None if it is none."""
    return Result.read(line) if line.startswith('{"status"') else None


def require_launchable(spec: ir.Spec) -> None:
    """Raise the SpecError of a spec that cannot be run, once and before every task reports it."""
    require_trainable(spec)
    require_one_graph(plan_of(spec))


def run_client(
    command: TaskCommand, options: RunOptions, output: TaskOutput, own: Membership | None = None
) -> Result:
    """Train in one graph: all tasks are servers, and this process is their client.

    Raises:
        RunError: If a task has ended and cannot be started again; otherwise as `start.run`.
    """
    from tfdeploy.runtime.train import start

    with (
        output.kept(),
        Launcher(command, output.on_line, output.say, own) as launcher,
        launcher.supervised(),
    ):
        return start.run(command.spec, evolve(options, membership=launcher.client))


@frozen
class LaunchOutcome:
    """How a run of workers has ended."""

    code: int  # the exit code of the chief, or of the task that has ended the run
    # The diagnostic about the task that has ended the run; None if the chief has ended it.
    failure: Diagnostic | None = None
    result: str | None = None  # the result of the chief as JSON, if it has written one


def run_workers(command: TaskCommand, output: TaskOutput, *, own_process: bool = False) -> LaunchOutcome:
    """Train with a graph for each worker, and return when all processes have ended.

    A signal is passed on to the chief, which writes a checkpoint; to all tasks if these come and go, because
    another one would be the chief otherwise. One that does nothing then is killed.

    Raises:
        BrokenPipeError: If the reader of the output has closed it.
    """
    with (
        StopSignals(own_process=own_process) as stop,
        output.kept(),
        Launcher(command, output.on_line, output.say) as launcher,
    ):
        while (code := launcher.outcome(output.results)) is None and launcher.failure is None:
            launcher.check_tasks()
            if output.closed is not None:
                raise output.closed
            if stop.received is not None and not launcher.ending:
                launcher.ending = True
                launcher.send(stop.received)
            if stop.received is not None:
                launcher.end_stuck(stop.received)
            time.sleep(POLL)
        if stop.received is not None:
            launcher.end_all()  # the chief has not told the others that the run is over, since it can go on
    if stop.received is not None:
        return LaunchOutcome(BASE + stop.received, result=output.result)
    if launcher.failure is not None:
        return LaunchOutcome(FAULT if launcher.failed < 0 else launcher.failed, launcher.failure)
    return LaunchOutcome(code or 0, result=output.result)


# --- from Python ------------------------------------------------------------------------------------------


def run_on_cluster(
    spec: ir.Spec, options: RunOptions, task: str | None = None, join: str | None = None
) -> Result:
    """Train a spec with jobs, for `tfdeploy.run`.

    If the addresses of the tasks are not known, all tasks are started on this machine with a copy of the
    spec, and their output becomes notes of the reporter.

    Returns:
        The outcome of the run. See `start.run` for the errors.
    """
    from tfdeploy.runtime.train import start

    own = None if task is None else Task.parse(task)
    met = None
    if join is not None or not knows_addresses(spec, os.environ):
        met = meet_others(spec, os.environ, own, join, options.reporter.note, trains=True)
    if met is not None:
        membership, needed = met
        os.environ.update(needed)
        if is_server(spec, membership.own):  # the chief of one graph, whose server is a process of its own
            return _launch(spec, options, membership)
    else:
        given = find_membership(spec, os.environ, own)
        if given is None:
            return _launch(spec, options)
        require_trainer(spec, given)
        membership = given
    return start.run(spec, evolve(options, membership=with_run_secret(membership, os.environ)))


def _launch(spec: ir.Spec, options: RunOptions, own: Membership | None = None) -> Result:
    require_launchable(spec)
    output = TaskOutput(spec, lambda text, _: options.reporter.note(text))
    with copied_spec(spec, options_for(spec, options), options) as command:
        if replication_of(spec) == "in_graph":
            return run_client(command, options, output, own)
        ended = run_workers(command, output)
    if ended.failure is not None:
        raise RunError(ended.failure)
    result = result_of(ended.result) if ended.result is not None else None
    if ended.code == BASE + signal.SIGINT:
        raise Interrupted(result)
    if ended.code == BASE + signal.SIGTERM:
        raise Terminated(result)
    assert result is not None  # a chief that ends without an error has written its result
    options.reporter.finished(result)
    return result


@contextmanager
def copied_spec(spec: ir.Spec, flags: Sequence[str], options: RunOptions) -> Iterator[TaskCommand]:
    """Write the spec, with its overrides, to a temporary file during the block."""
    chief = ("--profile", str(options.profile)) if options.profile else ()
    folder_of_modules = ("--modules", str(folder_of(spec).absolute()))
    with temporary_folder() as folder:
        path = folder / f"{Path(spec.path).stem or 'spec'}.tfdeploy"
        path.write_text(effective_text(spec, RunDirectory.of(spec).path), encoding="utf-8")
        yield TaskCommand(spec, str(path), tuple(flags), options.resume, chief, folder_of_modules)


def options_for(spec: ir.Spec, options: RunOptions) -> list[str]:
    """Return the options of the command line for tasks that read a spec which Python has loaded.

    Tasks may load Python code only if the spec does, which was allowed when it was loaded.
    """
    text = effective_text(spec, RunDirectory.of(spec).path)
    asks = not grammar.read(spec.path, text=text, allow_python=False).spec
    return [*(["--allow-python"] if asks else []), *(["--verbose"] if options.verbose else [])]


def result_of(text: str) -> Result:
    """Return the result in a line of the chief; raises BadRecord if it is none."""
    return parse_record(text, Result)
