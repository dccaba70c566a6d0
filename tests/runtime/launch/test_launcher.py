"""What the launcher gives its tasks, and what it does about those that end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import grammar
from dsl import ir
from tests.runtime.tasks import SPEC
from tfdeploy.runtime.launch import launcher as module
from tfdeploy.runtime.launch.launcher import (
    MOST_EARLY,
    PAUSE,
    QUICK,
    SHUTDOWN_TIME,
    Launcher,
    TaskCommand,
    _reserved,
)
from tfdeploy.runtime.launch.scaling import ScaleRequest
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.membership.secret import VARIABLE as SECRET

PS, CHIEF, WORKER = Task("ps", 0), Task("worker", 0), Task("worker", 1)


def test_ports_of_tasks_are_reserved() -> None:
    """Addresses are on the loopback device, each with a port of its own that nobody else can take."""
    with ExitStack() as stack, socket.socket() as other:
        addresses = [_reserved(stack) for _ in range(3)]
        hosts, ports = zip(*(each.split(":") for each in addresses), strict=True)
        assert set(hosts) == {"127.0.0.1"}
        assert len(set(ports)) == 3
        with pytest.raises(OSError, match="in use"):
            other.bind((hosts[0], int(ports[0])))


def load(folder: Path, replication: str = "between_graph") -> ir.Spec:
    """Return a spec of a parameter server and two workers."""
    path = folder / "spec.tfdeploy"
    path.write_text(SPEC.format(ps="tasks = 1", worker="tasks = 2"))
    return grammar.load(path, [("update.replication", replication)])


def load_changing(folder: Path) -> ir.Spec:
    """Return a spec of two to four workers."""
    path = folder / "spec.tfdeploy"
    path.write_text(SPEC.replace('job "ps" {{ {ps} }}', "").format(worker="tasks = 2..4"))
    return grammar.load(path, [("train.directory", str(folder / "run"))])


def test_tasks_are_started_with_what_they_need(tmp_path: Path) -> None:
    """A server only serves; the chief alone gives its result; who is started again goes on."""
    command = TaskCommand(
        load(tmp_path), "s", ("--verbose",), "never", ("--profile", "3"), ("--modules", "m")
    )
    first = ["compile-and-run", "s", "--task"]
    more = ["--verbose", "--modules", "m", "--resume"]
    assert command.arguments(PS, again=True) == ["serve", "s", "--task", "ps:0", "--verbose"]
    assert command.arguments(WORKER, again=False) == [*first, "worker:1", *more, "never"]
    assert command.arguments(WORKER, again=True) == [*first, "worker:1", *more, "auto"]
    assert command.arguments(CHIEF, again=False) == [
        *first, "worker:0", *more, "never", "--json", "--profile", "3",
    ]  # fmt: skip


class Started:
    """A process of a task that ends when a test says so."""

    def __init__(self, task: Task, arguments: list[str], environment: dict[str, str], pid: int) -> None:
        self.task, self.arguments, self.environment = task, arguments, environment
        self.process = SimpleNamespace(pid=pid)
        self.code: int | None = None
        self.lived, self.starts, self.early = 0.0, 1, 0
        self.signals: list[int] = []

    def send(self, number: int) -> None:
        """Take down a signal."""
        self.signals.append(number)

    def ended(self) -> int | None:
        """Return the exit code."""
        return self.code

    def wait_for_output(self) -> None:
        """Do nothing, because all has been read."""


class Launch:
    """A launcher whose processes, and whose clock, only pretend."""

    def __init__(self, launcher: Launcher, said: list[str]) -> None:
        self.launcher, self.said = launcher, said
        self.now = 1000.0
        self.started: list[Started] = []
        self.stopped: list[str] = []
        self.hear: dict[Task, Callable[[str, Any], None]] = {}

    def start(self, task: Task, arguments: Any, environment: Any, _: Any, on_line: Any) -> Started:
        """Take down what is started."""
        self.hear[task] = on_line
        self.started.append(Started(task, arguments, environment, len(self.started)))
        return self.started[-1]

    def newest(self, task: Task) -> Started:
        """Return the newest process of a task."""
        return [each for each in self.started if each.task == task][-1]

    def end(self, task: Task, code: int, lived: float = QUICK, later: float = 0.0) -> int:
        """Let the process of a task end; return how often it has been started by then.

        Args:
            task: The task.
            code: Its exit code.
            lived: The seconds for which it has been running.
            later: The seconds after which the launcher looks again.
        """
        child = self.newest(task)
        child.code, child.lived = code, lived
        self.launcher.check_tasks()
        self.now += later
        self.launcher.check_tasks()
        return self.newest(task).starts


@pytest.fixture
def launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Launch]:
    """Yield a launcher of a parameter server and two workers, in one graph or changing on request."""
    said: list[str] = []
    replication = getattr(request, "param", "between_graph")
    spec = load_changing(tmp_path) if replication == "changing" else load(tmp_path, replication)
    launcher = Launcher(TaskCommand(spec, "spec"), lambda *_: None, said.append)
    found = Launch(launcher, said)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: found.now))
    processes = module.task_processes
    fake = SimpleNamespace(
        start=found.start,
        describe_exit=processes.describe_exit,
        wait=lambda children, _: found.stopped.extend(f"waited {each.task.ref}" for each in children),
        stop=lambda children, _: found.stopped.extend(f"stopped {each.task.ref}" for each in children) or [],
    )
    monkeypatch.setattr(module, "task_processes", fake)
    with launcher:
        yield found


def test_tasks_get_the_addresses_and_the_secret(launch: Launch) -> None:
    """Each knows which it is, and who has started it; so does the client, which is no task."""
    assert [each.task for each in launch.started] == [PS, CHIEF, WORKER]
    environment = launch.newest(WORKER).environment
    assert '"task": {"type": "worker", "index": 1}' in environment["TF_CONFIG"]
    assert environment["PYTHONUNBUFFERED"] == "1"
    client = launch.launcher.client
    assert environment["TFDEPLOY_LAUNCHER"] == str(client.launcher)
    assert (client.task, client.given_by, client.cluster) == (None, "launch", launch.launcher.cluster)
    assert client.secret is not None
    assert {each.environment[SECRET] for each in launch.started} == {environment[SECRET]}


def test_a_task_that_ends_by_accident_is_started_again(launch: Launch) -> None:
    """At once, if it was running for long; with a pause that grows if it ends soon, time after time."""
    assert launch.end(WORKER, -9) == 2
    assert launch.said == ["worker:1 was ended by SIGKILL; it is started again"]
    assert launch.newest(WORKER).arguments[-2:] == ["--resume", "auto"]
    for early in range(2, MOST_EARLY):
        pause = PAUSE * (early - 1)
        assert launch.end(WORKER, 3, QUICK - 1, pause - 0.1) == early
        launch.now += 0.1
        launch.launcher.check_tasks()
        assert launch.newest(WORKER).starts == early + 1
    assert (launch.launcher.failure, launch.launcher.finished) == (None, {})
    launch.hear[WORKER]("why", "stderr")
    launch.hear[WORKER]("something else", "stdout")
    assert launch.end(WORKER, 3, QUICK - 1, 60.0) == MOST_EARLY
    failure = launch.launcher.failure
    assert failure is not None
    said = f"`worker:1` ended with exit code 3 {MOST_EARLY} times in a row, soon after it was started"
    assert failure.message == said
    assert failure.notes == ("why",)
    assert (launch.launcher.failed, launch.launcher.finished) == (3, {WORKER: 3})
    assert len(launch.said) == MOST_EARLY - 1


def test_an_end_after_long_begins_the_count_anew(launch: Launch) -> None:
    """Only early ends in a row are taken for a task that cannot run."""
    for _ in range(2):
        for _ in range(MOST_EARLY - 2):
            launch.end(CHIEF, -11, 1.0, 60.0)
        launch.end(CHIEF, -11, QUICK, 60.0)
        assert launch.newest(CHIEF).early == 1
    assert launch.launcher.failure is None


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_worker_that_says_how_it_ended_is_done(launch: Launch, code: int) -> None:
    """An error ends the run; of several the first counts."""
    assert launch.end(WORKER, code, 1.0, 60.0) == 1
    assert launch.launcher.finished == {WORKER: code}
    failure = launch.launcher.failure
    assert (failure is None) is (code == 0)
    launch.end(CHIEF, 1)
    assert launch.launcher.failed == (code or 1)
    assert failure is None or launch.launcher.failure is failure


def test_a_server_that_was_shut_down_is_done_if_the_run_is(launch: Launch) -> None:
    """Otherwise the run goes on without it, and it is started again after a while."""
    assert launch.end(PS, 0, later=SHUTDOWN_TIME) == 1
    launch.now += 0.1
    launch.launcher.check_tasks()
    launch.launcher.check_tasks()
    assert launch.newest(PS).starts == 2
    assert launch.said == ["ps:0 ended with exit code 0; it is started again"]
    launch.end(CHIEF, 0)
    assert launch.end(PS, 0) == 2
    assert launch.launcher.finished == {CHIEF: 0, PS: 0}
    assert launch.end(PS, 1) == 2


@pytest.mark.parametrize("launch", ["in_graph"], indirect=True)
def test_a_chief_that_only_serves_does_not_end_the_run(launch: Launch) -> None:
    """In one graph the client trains, so that every server is started again."""
    launch.launcher.finished[CHIEF] = 0
    assert launch.end(PS, 0, later=SHUTDOWN_TIME + 1) == 1
    launch.launcher.check_tasks()
    assert launch.newest(PS).starts == 2


def test_while_a_run_ends_nothing_is_started(launch: Launch) -> None:
    """And no end is a failure."""
    launch.launcher.ending = True
    assert launch.end(WORKER, -9, 1.0, 60.0) == 1
    assert (launch.launcher.finished, launch.launcher.failure) == ({WORKER: -9}, None)


@pytest.mark.parametrize("raised", [False, True])
def test_tasks_are_waited_for_after_a_run_that_was_finished(launch: Launch, *, raised: bool) -> None:
    """After one that was not they are stopped at once; both leave nothing."""
    launch.launcher.__exit__(KeyError if raised else None, None, None)
    every = [each.ref for each in launch.launcher.cluster.tasks]
    waited = [] if raised else [f"waited {each}" for each in every]
    assert launch.stopped == [*waited, *(f"stopped {each}" for each in every)]
    assert launch.launcher.ending


def _scale(launch: Launch, tmp_path: Path, tasks: int) -> ScaleRequest:
    """Ask for a number of workers, and return the answer."""
    path = tmp_path / "run" / "scale.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(ScaleRequest("worker", tasks).to_json())
    launch.launcher.check_tasks()
    answer = ScaleRequest.read(path.read_text())
    assert answer is not None
    return answer


@pytest.mark.parametrize("launch", ["changing"], indirect=True)
def test_the_number_of_workers_is_changed_while_they_run(launch: Launch, tmp_path: Path) -> None:
    """The least are started; more on request, the last of which end again; who ends by SIGTERM has left."""
    workers = [Task("worker", index) for index in range(4)]
    assert [each.task for each in launch.started] == workers[:2]
    assert _scale(launch, tmp_path, 4).before == 2
    assert _scale(launch, tmp_path, 4).before == 4
    assert [each.task for each in launch.started] == workers
    assert _scale(launch, tmp_path, 2).before == 4
    assert [each.signals for each in launch.started] == [[], [], [signal.SIGTERM], [signal.SIGTERM]]
    assert launch.end(workers[3], 143) == 1
    assert launch.end(workers[2], 0) == 1
    assert launch.end(workers[1], 143) == 1
    assert launch.launcher.failure is None
    assert _scale(launch, tmp_path, 3).before == 1
    assert [each.task for each in launch.started[4:]] == workers[1:3]
    assert launch.said == [
        "worker: 4 tasks instead of 2",
        "worker: 4 tasks instead of 4",
        "worker: 2 tasks instead of 4",
        "worker:3 has left",
        "worker:2 has left",
        "worker:1 has left",
        "worker: 3 tasks instead of 1",
    ]


@pytest.mark.parametrize("launch", ["changing"], indirect=True)
def test_others_go_on_without_a_worker_that_always_ends(launch: Launch) -> None:
    """A worker that is killed is started again, but not for ever; one that ends by SIGTERM is not."""
    for _ in range(MOST_EARLY - 1):
        launch.end(WORKER, -9, 1.0, 60.0)
    launch.end(WORKER, -9, 1.0)
    assert launch.said[-1].endswith(
        f"{MOST_EARLY} times in a row, soon after it was started; the others go on without it"
    )
    assert launch.launcher.failure is None
    assert launch.launcher.outcome([]) is None
    assert launch.end(CHIEF, 143) == 1
    assert launch.launcher.outcome([]) == 143
    assert launch.launcher.outcome([CHIEF]) == 143


@pytest.mark.parametrize("launch", ["changing"], indirect=True)
def test_a_run_is_over_with_the_chief_whichever_it_is(launch: Launch) -> None:
    """That is one that has written a result and has ended well; a signal is sent to all, which may be it."""
    launch.launcher.send(signal.SIGTERM)
    assert [each.signals for each in launch.started] == [[signal.SIGTERM]] * 2
    launch.end(CHIEF, 0)
    assert launch.launcher.outcome([]) is None
    launch.end(WORKER, 0)
    assert launch.launcher.outcome([WORKER]) == 0
