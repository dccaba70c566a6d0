"""Starts all tasks of a cluster as processes of this machine, restarts them, and ends them with the run.

The launcher needs no TensorFlow. It reserves the ports of its tasks while it runs, so that a task that is
started again gets the same address. It gives tasks their addresses by TF_CONFIG, and passes on their output.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal, Self, TypeAlias

from attrs import frozen

from compiler.compatibility import changing_job
from dsl import ir
from dsl.diagnostics import Diagnostic
from dsl.errors import cluster as errors
from dsl.errors.wording import counted
from dsl.files.regular import as_argument
from tfdeploy.runtime.launch import task_processes
from tfdeploy.runtime.launch.scaling import ScaleRequest, Scaling
from tfdeploy.runtime.launch.task_processes import TaskProcess
from tfdeploy.runtime.membership.addresses import (
    VARIABLE,
    Cluster,
    Membership,
    Task,
    bound_socket,
    to_tf_config,
)
from tfdeploy.runtime.membership.membership import (
    GPUS,
    LAUNCHER,
    fingerprint,
    gpus_of,
    is_server,
    may_be_chief,
)
from tfdeploy.runtime.membership.secret import VARIABLE as SECRET
from tfdeploy.runtime.membership.secret import own_secret, path_of, secret_of
from tfdeploy.runtime.show.reporting import duration
from tfdeploy.runtime.start_tensorflow import LOOPBACK

QUICK = 20.0  # seconds; a task that ends sooner has ended early
MOST_EARLY = 5  # a task that ends early this many times in a row is not started again
GRACE = 5.0
FINISHING = 10.0
ENDING = 20.0
"""The seconds for which a task may do nothing after a signal, before it is killed."""

SAY_AFTER, GROWTH = 5.0, 2  # seconds until a task is said not to have ended, and until that is said again
SHUTDOWN_TIME = 30.0  # seconds that a run has for ending after it has shut down its servers
POLL = 0.1
PAUSE = 0.5
KEPT_LINES = 12
LEFT = 128 + signal.SIGTERM
FINAL = {0, 1, 2}  # exit codes of a task that is done or has reported an error; others are accidents
# A server ends with code 0 when it is shut down, perhaps too early: see `Launcher._handle_end_of_server`.

Stream: TypeAlias = Literal["stdout", "stderr"]
Hear: TypeAlias = "Callable[[Task, str, Stream], None]"


@frozen
class TaskCommand:
    """How the tasks of a cluster are started."""

    spec: ir.Spec
    path: str
    options: tuple[str, ...] = ()
    # The value of `--resume` for tasks that train. A task that is started again always resumes.
    resume: str = "auto"
    chief_options: tuple[str, ...] = ()
    trainer_options: tuple[str, ...] = ()
    # How tasks are started again, with a copy of the spec that is not changed meanwhile; None if it makes no
    # difference.
    later: TaskCommand | None = None

    def arguments(self, task: Task, *, again: bool) -> list[str]:
        """Return the arguments of `tfdeploy` that run a task; `again` if it has been started before."""
        common = ["--task", task.ref, *self.options]
        if is_server(self.spec, task):
            return ["serve", as_argument(self.path), *common]
        resume = "auto" if again else self.resume
        more = ("--json", *self.chief_options) if may_be_chief(self.spec, task) else ()
        common += [*self.trainer_options, "--resume", resume, *more]
        return ["compile-and-run", as_argument(self.path), *common]


class Launcher:
    """Starts every task of a spec's cluster when it is entered, and ends all of them when it is left.

    Args:
        on_line: Called from threads with each line that a task writes, and its stream.
        say: Called with a sentence about each restart.
        own: The membership of the one task that is started, if others are elsewhere; None to start all.

    Attributes:
        failure: The diagnostic about the task that has ended the run; None if there is none.
        ending: Whether the run is about to end, so that no task is started again.
    """

    def __init__(
        self,
        command: TaskCommand,
        on_line: Hear,
        say: Callable[[str], None],
        own: Membership | None = None,
    ) -> None:
        self.command = command
        self._own = own
        self.failure: Diagnostic | None = None
        self.failed = 0
        self.finished: dict[Task, int] = {}
        self.ending = False
        self._hear, self._say = on_line, say
        self._stack = ExitStack()
        self._children: dict[Task, TaskProcess] = {}
        self._due: dict[Task, float] = {}
        self._going: set[Task] = set()  # those that have been asked to end
        # When servers have ended by themselves, by the numbers of their processes.
        self._ended: dict[int, float] = {}
        self._last_words: dict[Task, deque[str]] = {}
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._said: dict[Task, float] = {}  # after how many seconds each is said again not to have ended
        self._scaling = Scaling(command.spec)

    # --- from beginning to end ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        spec = self.command.spec
        with ExitStack() as stack:
            if self._own is None:
                self.cluster = Cluster.of(
                    {job.name: [_reserved(stack) for _ in range(job.tasks)] for job in spec.devices.jobs}
                )
                self._secret = stack.enter_context(own_secret())
            else:
                self.cluster, self._secret = self._own.cluster, path_of(os.environ)
            self._pipe = stack.enter_context(task_processes.lifeline())
            stack.callback(self._leaving.set)
            stack.callback(self.end_all)
            for task in self._first_tasks() if self._own is None else [self._own.own]:
                self._start(task)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.ending = True
        with self._stack:
            if kind is None and self.failure is None:
                task_processes.wait(list(self._children.values()), FINISHING)

    def end_all(self) -> None:
        """End all processes."""
        self.ending = True
        with self._lock:
            for each in task_processes.stop(list(self._children.values()), GRACE):
                self._say_killed(each, "SIGTERM", GRACE)

    @property
    def client(self) -> Membership:
        """The membership of the launcher's own process, which is no task but a client of all tasks."""
        return Membership(
            self.cluster,
            None,
            fingerprint(self.command.spec),
            "launch" if self._own is None else self._own.given_by,
            lambda: self.failure,
            launcher=os.getpid(),
            secret=secret_of({SECRET: str(self._secret)}),
        )

    def send(self, number: int) -> None:
        """Send a signal to the chief; to all tasks if these come and go."""
        for task, child in self._children.items():
            if may_be_chief(self.command.spec, task):
                child.send(number)

    def end_stuck(self, number: signal.Signals) -> None:
        """Kill those that were sent a signal and have done nothing since, and say which have not ended.

        A task that makes no progress ends itself, unless its process is stopped, or cannot do even that.
        """
        for child in self._children.values():
            if child.told is None or child.ended() is not None:
                continue
            taken, idle = time.monotonic() - child.told, child.idle()
            if taken >= self._said.get(child.task, SAY_AFTER):
                self._said[child.task] = GROWTH * taken
                ref, others = child.task.ref, "another signal ends all tasks at once"
                self._say(f"{ref} has not ended for {duration(taken)} since {number.name}; {others}")
            if idle >= ENDING:
                child.process.kill()
                child.process.wait()
                self._say_killed(child, number.name, taken)

    def _say_killed(self, child: TaskProcess, name: str, taken: float) -> None:
        process = f"process {child.process.pid}"
        self._say(f"{child.task.ref} had not ended for {duration(taken)} since {name}: {process} was killed")

    def outcome(self, results: Container[Task]) -> int | None:
        """Return the exit code with which the run is over; None while it goes on.

        Args:
            results: The tasks that have written a result: the chief, and others that were it before.
        """
        if changing_job(self.command.spec) is None:
            return self.finished.get(self.cluster.chief)
        if any(code == 0 and task in results for task, code in self.finished.items()):
            return 0
        return None if self._goes_on else LEFT

    @property
    def _goes_on(self) -> bool:
        """Whether a task has not ended, or is about to be started again."""
        return not self.finished.keys() >= self._children.keys()

    def _comes_and_goes(self, task: Task) -> bool:
        """Whether the run goes on without a task that has ended."""
        job = changing_job(self.command.spec)
        return job is not None and job.name == task.job

    def kill(self, task: Task) -> None:
        """Kill a task and wait for its end; it is started again, and does not count as one that fails."""
        child = self._children[task]
        child.send(signal.SIGKILL)
        child.process.wait()
        child.early = 0

    def _first_tasks(self) -> list[Task]:
        """Return the tasks with which the run begins: the least of a job whose tasks come and go."""
        jobs = {job.name: job.least or job.tasks for job in self.command.spec.devices.jobs}
        return [each for each in self.cluster.tasks if each.index < jobs[each.job]]

    def _scale(self, wanted: ScaleRequest) -> int:
        """Start or end tasks until a job has as many as are wanted; return how many it had."""
        tasks = [each for each in self.cluster.tasks if each.job == wanted.job]
        there = [each for each in tasks if each in self._children and each not in self.finished]
        there = [each for each in there if each not in self._going]
        for each in reversed(there[wanted.tasks :]):
            self._going.add(each)
            self._children[each].send(signal.SIGTERM)
        absent = [each for each in tasks if each not in there and each not in self._going]
        for each in absent[: max(wanted.tasks - len(there), 0)]:
            self.finished.pop(each, None)
            self._start(each)
        self._say(f"{wanted.job}: {counted(wanted.tasks, 'task')} instead of {len(there)}")
        return len(there)

    # --- tasks --------------------------------------------------------------------------------------------

    def _start(self, task: Task, before: TaskProcess | None = None) -> None:
        command = (before and self.command.later) or self.command
        arguments = command.arguments(task, again=before is not None)
        environment = self._environment(task, command)
        child = task_processes.start(task, arguments, environment, self._pipe, self._line(task))
        if before is not None:
            child.starts, child.early = before.starts + 1, before.early
        self._children[task] = child

    def _environment(self, task: Task, command: TaskCommand) -> dict[str, str]:
        environment = {
            **os.environ,
            VARIABLE: to_tf_config(self.cluster, task),
            SECRET: str(self._secret),
            LAUNCHER: str(os.getpid()),
            "PYTHONUNBUFFERED": "1",
        }
        gpus = gpus_of(command.spec, task, os.environ.get(GPUS))
        return environment if gpus is None else {**environment, GPUS: gpus}

    def _line(self, task: Task) -> Callable[[str, Stream], None]:
        words = self._last_words.setdefault(task, deque(maxlen=KEPT_LINES))

        def on_line(line: str, stream: Stream) -> None:
            if stream == "stderr":
                words.append(line)
            self._hear(task, line, stream)

        return on_line

    def check_tasks(self) -> None:
        """Find the tasks that have ended, and start those again that should be running.

        Only then is their number changed, so that one that has just ended does not count as there.
        """
        with self._lock:
            for task, child in list(self._children.items()):
                code = child.ended()
                if code is not None and task not in self.finished:
                    self._handle_end(task, child, code)
            self._scaling.answer(self._scale)

    def _handle_end(self, task: Task, child: TaskProcess, code: int) -> None:
        """Handle the end of a process: the task is done, or is started again."""
        if self.ending:
            self._finish_task(task, code)
        elif task in self._due:
            if time.monotonic() >= self._due[task]:
                del self._due[task]
                self._start(task, child)
        else:
            child.wait_for_output()
            if self._comes_and_goes(task) and (code == LEFT or task in self._going):
                self._going.discard(task)
                self.finished[task] = code
                self._say(f"{task.ref} has left")
            elif code == 0 and is_server(self.command.spec, task):
                self._handle_end_of_server(task, child)
            elif code in FINAL:
                self._finish_task(task, code)
            else:
                self._restart(task, child, code)

    def _handle_end_of_server(self, task: Task, child: TaskProcess) -> None:
        """Start a server again that has ended by itself, if the run continues without it.

        The run shuts down its servers when it is about to end, and then has some time to end.
        """
        self._ended.setdefault(child.process.pid, time.monotonic())
        if self.cluster.chief in self.finished and not is_server(self.command.spec, self.cluster.chief):
            self._finish_task(task, 0)
        elif time.monotonic() - self._ended[child.process.pid] > SHUTDOWN_TIME:
            self._restart(task, child, 0)

    def _finish_task(self, task: Task, code: int) -> None:
        self.finished[task] = code
        if code != 0 and not self.ending and self.failure is None:
            self._fail(task, code, task_processes.describe_exit(code))

    def _restart(self, task: Task, child: TaskProcess, code: int) -> None:
        """Start a task again after a pause, unless it has ended early too often."""
        child.early = child.early + 1 if child.lived < QUICK else 1
        if child.early >= MOST_EARLY:
            how = task_processes.describe_exit(code)
            how = f"{how} {child.early} times in a row, soon after it was started"
            self.finished[task] = code
            if self._comes_and_goes(task) and self._goes_on:
                self._say(f"{task.ref} {how}; the others go on without it")
            else:
                self._fail(task, code, how)
            return
        self._say(f"{task.ref} {task_processes.describe_exit(code)}; it is started again")
        self._due[task] = time.monotonic() + PAUSE * (child.early - 1)

    def _fail(self, task: Task, code: int, how: str) -> None:
        """Note which task ends the run, and the last lines that it has written to standard error."""
        self.failed = code
        self.failure = errors.task_failed(ref=task.ref, how=how, notes=self._last_words[task])

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Call `check_tasks` from a thread during the block."""
        finished = threading.Event()

        def check_tasks() -> None:
            while not finished.wait(POLL):
                self.check_tasks()
            self._leaving.wait()  # Linux ends the processes that a thread has started with the thread

        thread = threading.Thread(target=check_tasks, daemon=True, name="launcher")
        thread.start()
        try:
            yield
        finally:
            finished.set()


def _reserved(stack: ExitStack) -> str:
    """Return a free address on the loopback device, whose port is reserved until the stack is closed."""
    return f"{LOOPBACK}:{stack.enter_context(bound_socket(LOOPBACK, 0)).getsockname()[1]}"
