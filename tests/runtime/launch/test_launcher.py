"""What the launcher gives its tasks, and what it does about those that end."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from attrs import evolve

import grammar
from dsl import ir
from tests.patience import wait_until
from tests.runtime.launch.scripted import PATIENCE, Scene
from tests.runtime.tasks import SPEC
from tfdeploy.runtime.launch import launcher as module
from tfdeploy.runtime.launch.launcher import MOST_EARLY, TaskCommand, _reserved
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
    strange = evolve(command, path="-s")
    assert {strange.arguments(each, again=False)[1] for each in (PS, CHIEF)} == {"./-s"}


@pytest.fixture
def launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """Yield a launcher of a parameter server and two workers, in one graph or changing on request.

    Whatever ends has ended early, and is started again without a pause.
    """
    replication = getattr(request, "param", "between_graph")
    spec = load_changing(tmp_path) if replication == "changing" else load(tmp_path, replication)
    for name, seconds in (("QUICK", 1000.0), ("PAUSE", 0.0), ("SHUTDOWN_TIME", 1000.0), ("FINISHING", 0.0)):
        monkeypatch.setattr(module, name, seconds)
    found = Scene(monkeypatch, tmp_path, spec, "TF_CONFIG", "PYTHONUNBUFFERED", "TFDEPLOY_LAUNCHER", SECRET)
    with found.launcher:
        yield found


def test_tasks_get_the_addresses_and_the_secret(launch: Scene) -> None:
    """Each knows which it is, and who has started it; so does the client, which is no task."""
    client = launch.launcher.client
    environments = {each: launch.there(each).environment for each in (PS, CHIEF, WORKER)}
    for task, found in environments.items():
        config = json.loads(found["TF_CONFIG"])
        assert config["task"] == {"type": task.job, "index": task.index}
        assert config["cluster"][task.job][task.index] == client.cluster.address(task)
        assert (found["PYTHONUNBUFFERED"], found["TFDEPLOY_LAUNCHER"]) == ("1", str(client.launcher))
    assert (client.task, client.given_by, client.cluster) == (None, "launch", launch.launcher.cluster)
    assert client.secret is not None
    assert {found[SECRET] for found in environments.values()} == {environments[PS][SECRET]}
    assert environments[PS][SECRET]


def test_a_task_that_always_ends_early_is_not_started_for_ever(launch: Scene) -> None:
    """It ends the run, with its last words to standard error; what is started again resumes."""
    first = launch.there(WORKER)
    launch.end(WORKER, -9)
    assert launch.said == ["worker:1 was ended by SIGKILL; it is started again"]
    assert [each.arguments[-2:] for each in (first, launch.there(WORKER, 2))] == [
        ["--resume", "never"],
        ["--resume", "auto"],
    ]
    for count in range(2, MOST_EARLY):
        launch.end(WORKER, 3, count=count)
    assert (launch.launcher.failure, launch.launcher.finished) == (None, {})
    launch.end(WORKER, 3, count=MOST_EARLY)
    failure = launch.launcher.failure
    said = f"`worker:1` ended with exit code 3 {MOST_EARLY} times in a row, soon after it was started"
    assert failure.message == said
    assert failure.notes == tuple(f"why {each}" for each in (3,) * (MOST_EARLY - 1))
    assert (launch.launcher.failed, launch.launcher.finished) == (3, {WORKER: 3})
    assert len(launch.said) == MOST_EARLY - 1


def test_the_pause_grows_with_each_early_end(launch: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends by accident for the first time is started again at once."""
    monkeypatch.setattr(module, "PAUSE", 1000.0)
    launch.end(WORKER, -9)
    launch.there(WORKER, 2)
    for count, pause in ((2, 0.2), (3, 0.4)):
        monkeypatch.setattr(module, "PAUSE", 0.2)
        before = time.monotonic()
        launch.end(WORKER, -9, count=count)
        monkeypatch.setattr(module, "PAUSE", 0.0)
        while len(launch.starts(WORKER)) == count:
            launch.launcher.check_tasks()
        assert time.monotonic() - before >= pause


def test_an_end_after_long_begins_the_count_anew(launch: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only early ends in a row are taken for a task that cannot run."""
    for count in range(1, 2 * MOST_EARLY):
        monkeypatch.setattr(module, "QUICK", 0.0 if count == MOST_EARLY - 1 else 1000.0)
        launch.end(CHIEF, -11, count=count)
        assert (launch.launcher.failure is None) is (count < 2 * MOST_EARLY - 2)
        if launch.launcher.failure is not None:
            break
    assert launch.launcher.finished == {CHIEF: -11}


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_worker_that_says_how_it_ended_is_done(launch: Scene, code: int) -> None:
    """An error ends the run; of several the first counts."""
    launch.end(WORKER, code)
    assert launch.launcher.finished == {WORKER: code}
    failure = launch.launcher.failure
    assert (failure is None) is (code == 0)
    launch.end(CHIEF, 1)
    assert launch.launcher.failed == (code or 1)
    assert failure is None or launch.launcher.failure is failure
    assert launch.said == []


def test_a_server_that_was_shut_down_is_done_if_the_run_is(launch: Scene) -> None:
    """As long as the run may still end, it is not started again."""
    launch.end(PS, 0)
    assert (launch.launcher.finished, launch.said) == ({}, [])
    launch.end(CHIEF, 0)
    launch.launcher.check_tasks()
    assert (launch.launcher.finished, launch.said) == ({CHIEF: 0, PS: 0}, [])


def test_a_server_without_which_a_run_goes_on_is_started_again(
    launch: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the time that the run had for ending."""
    monkeypatch.setattr(module, "SHUTDOWN_TIME", 0.0)
    launch.end(PS, 0)
    launch.launcher.check_tasks()
    launch.there(PS, 2)
    assert launch.said == ["ps:0 ended with exit code 0; it is started again"]


@pytest.mark.parametrize("launch", ["in_graph"], indirect=True)
def test_a_chief_that_only_serves_does_not_end_the_run(
    launch: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one graph the client trains, so that every server is started again."""
    launch.end(CHIEF, 1)
    launch.end(PS, 0)
    assert launch.launcher.finished == {CHIEF: 1}
    monkeypatch.setattr(module, "SHUTDOWN_TIME", 0.0)
    wait_until(lambda: launch.launcher.check_tasks() or len(launch.starts(PS)) == 2)


def test_while_a_run_ends_nothing_is_started(launch: Scene) -> None:
    """And no end is a failure."""
    launch.launcher.ending = True
    launch.end(WORKER, -9)
    assert (launch.launcher.finished, launch.launcher.failure) == ({WORKER: -9}, None)


@pytest.mark.parametrize("raised", [False, True])
def test_tasks_are_waited_for_after_a_run_that_was_finished(
    launch: Scene, monkeypatch: pytest.MonkeyPatch, *, raised: bool
) -> None:
    """After one that was not they are stopped at once; both leave nothing."""
    monkeypatch.setattr(module, "FINISHING", PATIENCE)
    every = [PS, CHIEF, WORKER]
    pids = [launch.there(each).pid for each in every]
    waiting = threading.Timer(
        PATIENCE / 4 if raised else 0.2, lambda: [launch.write_end(each, 0) for each in pids]
    )
    waiting.start()
    launch.launcher.__exit__(KeyError if raised else None, None, None)
    waiting.cancel()
    assert [launch.ended(each) for each in every] == ["SIGTERM" if raised else "0"] * 3
    assert launch.launcher.ending


def _scale(launch: Scene, tmp_path: Path, tasks: int) -> ScaleRequest:
    """Ask for a number of workers, and return the answer."""
    path = tmp_path / "run" / "scale.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(ScaleRequest("worker", tasks).to_json())
    launch.launcher.check_tasks()
    answer = ScaleRequest.read(path.read_text())
    assert answer is not None
    return answer


@pytest.mark.parametrize("launch", ["changing"], indirect=True)
def test_the_number_of_workers_is_changed_while_they_run(launch: Scene, tmp_path: Path) -> None:
    """The least are started; more on request, the last of which end again; who ends by SIGTERM has left."""
    workers = [Task("worker", index) for index in range(4)]
    first = [launch.there(each) for each in workers[:2]]
    assert _scale(launch, tmp_path, 4).before == 2
    assert _scale(launch, tmp_path, 4).before == 4
    more = [launch.there(each) for each in workers[2:]]
    assert [len(launch.starts(each)) for each in workers] == [1] * 4
    assert _scale(launch, tmp_path, 2).before == 4
    assert _scale(launch, tmp_path, 2).before == 2
    for each in reversed(more):
        launch.look_after(each.pid)
    assert [launch.ended(each) for each in workers[2:]] == ["SIGTERM"] * 2
    os.kill(first[1].pid, signal.SIGTERM)
    launch.look_after(first[1].pid)
    assert launch.launcher.failure is None
    assert _scale(launch, tmp_path, 3).before == 1
    for each in workers[1:3]:
        launch.there(each, 2)
    assert _scale(launch, tmp_path, 3).before == 3
    left = [f"worker:{each} has left" for each in (1, 2, 3)]
    assert sorted(each for each in launch.said if each in left) == left
    assert [each for each in launch.said if each not in left] == [
        "worker: 4 tasks instead of 2",
        "worker: 4 tasks instead of 4",
        "worker: 2 tasks instead of 4",
        "worker: 2 tasks instead of 2",
        "worker: 3 tasks instead of 1",
        "worker: 3 tasks instead of 3",
    ]


@pytest.mark.parametrize("launch", ["changing"], indirect=True)
def test_others_go_on_without_a_worker_that_always_ends(launch: Scene) -> None:
    """A worker that is killed is started again, but not for ever; one that ends by SIGTERM is not."""
    for count in range(1, MOST_EARLY + 1):
        launch.end(WORKER, -9, count=count)
    assert launch.said[-1].endswith(
        f"{MOST_EARLY} times in a row, soon after it was started; the others go on without it"
    )
    assert launch.launcher.failure is None
    assert launch.launcher.outcome([]) is None
    launch.end(CHIEF, 143)
    assert launch.launcher.outcome([]) == 143
    assert launch.launcher.outcome([CHIEF]) == 143


@pytest.mark.parametrize("launch", ["changing"], indirect=True)
def test_a_run_is_over_with_the_chief_whichever_it_is(launch: Scene) -> None:
    """That is one that has written a result and has ended well; a signal is sent to all, which may be it."""
    launch.end(CHIEF, 0)
    assert launch.launcher.outcome([]) is None
    launch.end(WORKER, 0)
    assert launch.launcher.outcome([WORKER]) == 0


@pytest.mark.parametrize(
    ("launch", "whom"),
    [("changing", [CHIEF, WORKER]), ("between_graph", [CHIEF])],
    indirect=["launch"],
)
def test_a_signal_is_sent_to_the_chief_or_to_all_that_may_be_it(launch: Scene, whom: list[Task]) -> None:
    """Others hear of the end from the chief."""
    pids = {each: launch.there(each).pid for each in launch.launcher.cluster.tasks if each.index < 2}
    launch.launcher.ending = True
    launch.launcher.send(signal.SIGINT)
    for each in whom:
        launch.look_after(pids[each])
    for each in pids.keys() - {*whom}:
        launch.write_end(pids[each], 0)
        launch.look_after(pids[each])
    assert launch.launcher.finished == {each: 130 if each in whom else 0 for each in pids}
