"""All tasks of a cluster as processes of this machine: started, started again, and ended with the run.

The launcher needs no TensorFlow. It keeps the ports for its tasks as long as it runs, so that a task that is
started again has its place, gives them their addresses by TF_CONFIG, and passes on what they say.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import deque
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

from attrs import frozen

from dsl.errors.running import cluster as errors
from tfdeploy.runtime.cluster.server.binding import LOOPBACK
from tfdeploy.runtime.launch import task_processes
from tfdeploy.runtime.launch.task_processes import ParentPipe, TaskProcess
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.membership.fingerprint import fingerprint
from tfdeploy.runtime.membership.membership import LAUNCHER, is_server
from tfdeploy.runtime.membership.secret import VARIABLE as SECRET
from tfdeploy.runtime.membership.secret import own_secret, secret_of
from tfdeploy.runtime.membership.tf_config import VARIABLE, to_tf_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsl import ir
    from dsl.diagnostics import Diagnostic

QUICK = 20.0  # a task that ends sooner has ended early
MOST_EARLY = 5  # so often in a row is once too often
GRACE = 5.0
FINISHING = 10.0
SHUTDOWN_TIME = 30.0  # seconds that a run has for ending after it has told its servers that it is over
POLL = 0.1
PAUSE = 0.5
KEPT_LINES = 12
FINAL = {0, 1, 2}  # its work is done, or it has said what is wrong; all other ends are accidents
# A server's work is done when the run is over, which it may be told in error: see `Launcher._too_soon`.
GPUS = "CUDA_VISIBLE_DEVICES"

Stream: TypeAlias = Literal["stdout", "stderr"]
Hear: TypeAlias = "Callable[[Task, str, Stream], None]"


@frozen
class TaskCommand:
    """How tasks are started: the spec as they read it, its file, and the options that all of them get.

    `resume`, `chief_options` and `trainer_options` are for those that train; one that is started again always
    resumes. `later` is for tasks that are started again: it does not matter to them that the file has been
    changed meanwhile.
    """

    spec: ir.Spec
    path: str
    options: tuple[str, ...] = ()
    resume: str = "auto"
    chief_options: tuple[str, ...] = ()
    trainer_options: tuple[str, ...] = ()
    later: TaskCommand | None = None

    def arguments(self, task: Task, chief: Task, *, again: bool) -> list[str]:
        """Return the command of tfdeploy that runs a task."""
        common = ["--task", task.ref, *self.options]
        if is_server(self.spec, task):
            return ["serve", self.path, *common]
        resume = "auto" if again else self.resume
        more = ("--json", *self.chief_options) if task == chief else ()
        return ["compile-and-run", self.path, *common, *self.trainer_options, "--resume", resume, *more]


class Launcher:
    """Starts every task of a spec's cluster when it is entered, and leaves none behind.

    `hear` is told what tasks write, line by line, from threads; `say` what the launcher does about them. What
    ends the run is left in `failure` and, as an exit code, in `failed`; `over` has the codes of all tasks
    that are done.
    """

    def __init__(self, command: TaskCommand, on_line: Hear, say: Callable[[str], None]) -> None:
        self.command = command
        self.failure: Diagnostic | None = None
        self.failed = 0
        self.finished: dict[Task, int] = {}
        self.ending = False
        self._hear, self._say = on_line, say
        self._stack = ExitStack()
        self._children: dict[Task, TaskProcess] = {}
        self._due: dict[Task, float] = {}
        self._ended: dict[int, float] = {}  # when servers have ended of themselves, by their processes
        self._last_words: dict[Task, deque[str]] = {}
        self._lock = threading.Lock()
        self._leaving = threading.Event()

    # --- from beginning to end ----------------------------------------------------------------------------

    def __enter__(self) -> Self:
        spec = self.command.spec
        with ExitStack() as stack:
            self.cluster = Cluster.of(
                {job.name: [_reserved(stack) for _ in range(job.tasks)] for job in spec.devices.jobs}
            )
            self._secret = stack.enter_context(own_secret())
            self._pipe = ParentPipe()
            stack.callback(self._pipe.close)
            stack.callback(self._leaving.set)
            stack.callback(self.end_all)
            for task in self.cluster.tasks:
                self._start(task)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.ending = True
        with self._stack:
            if kind is None and self.failure is None:
                task_processes.wait(list(self._children.values()), FINISHING)

    def end_all(self) -> None:
        """Leave no process behind."""
        self.ending = True
        with self._lock:
            task_processes.stop(list(self._children.values()), GRACE)

    @property
    def client(self) -> Membership:
        """What the launcher's own process is: no task, but a client of all."""
        return Membership(
            self.cluster,
            None,
            fingerprint(self.command.spec),
            "launch",
            lambda: self.failure,
            launcher=os.getpid(),
            secret=secret_of({SECRET: str(self._secret)}),
        )

    def send(self, task: Task, number: int) -> None:
        """Send a signal to a task."""
        self._children[task].send(number)

    # --- tasks --------------------------------------------------------------------------------------------

    def _start(self, task: Task, before: TaskProcess | None = None) -> None:
        command = (before and self.command.later) or self.command
        arguments = command.arguments(task, self.cluster.chief, again=before is not None)
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
        """See who has ended, and start again who should not have."""
        with self._lock:
            for task, child in self._children.items():
                code = child.ended()
                if code is not None and task not in self.finished:
                    self._handle_end(task, child, code)

    def _handle_end(self, task: Task, child: TaskProcess, code: int) -> None:
        """Do what the end of a task calls for."""
        if self.ending:
            self._finish_task(task, code)
        elif task in self._due:
            if time.monotonic() >= self._due[task]:
                del self._due[task]
                self._start(task, child)
        else:
            child.wait_for_output()
            if code == 0 and is_server(self.command.spec, task):
                self._handle_end_of_server(task, child)
            elif code in FINAL:
                self._finish_task(task, code)
            else:
                self._restart(task, child, code)

    def _handle_end_of_server(self, task: Task, child: TaskProcess) -> None:
        """Start a server again that has ended of itself, if the run goes on without it.

        The run tells its servers that it is over when it is about to end, and then has a while for that.
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
        """Start a task again soon, unless it has ended early too often."""
        child.early = child.early + 1 if child.lived < QUICK else 1
        if child.early >= MOST_EARLY:
            how = task_processes.describe_exit(code)
            how = f"{how} {child.early} times in a row, soon after it was started"
            self.finished[task] = code
            self._fail(task, code, how)
            return
        self._say(f"{task.ref} {task_processes.describe_exit(code)}; it is started again")
        self._due[task] = time.monotonic() + PAUSE * (child.early - 1)

    def _fail(self, task: Task, code: int, how: str) -> None:
        """Take down which task ends the run, and the last that it has written to standard error."""
        self.failed = code
        self.failure = errors.task_failed(task.ref, how, *self._last_words[task])

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Look after the tasks from a thread, while this one does something else."""
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
    """Return a free address on the loopback device; nobody else is given its port until the stack closes."""
    taken = stack.enter_context(socket.socket())
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # so that a server can have it all the same
    taken.bind((LOOPBACK, 0))
    return f"{LOOPBACK}:{taken.getsockname()[1]}"


def gpus_of(spec: ir.Spec, task: Task, visible: str | None) -> str | None:
    """Return which of this machine's GPUs are a task's own, None if that is left open.

    Tasks take GPUs one after the other, of those that `visible` lists if the environment limits them.
    """
    if spec.devices.visible is not None:
        return None
    first = 0
    for job in spec.devices.jobs:
        if job.name == task.job:
            if job.gpu == 0:
                return None
            numbers = range(first + task.index * job.gpu, first + (task.index + 1) * job.gpu)
            names = visible.split(",") if visible else [str(each) for each in range(numbers.stop)]
            return ",".join(names[at] for at in numbers if at < len(names))
        first += job.tasks * job.gpu
    return None
