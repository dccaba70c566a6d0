"""Who is missing, who is wrong, and who is back: against real servers, stopped ones, and other programs."""

from __future__ import annotations

import signal
import threading
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from dsl.diagnostics import RunError
from tests.runtime.tasks import PATIENCE, STARTING
from tfdeploy.runtime.cluster.health import monitor as module
from tfdeploy.runtime.cluster.health.monitor import TaskMonitor
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.membership.fingerprint import fingerprint
from tfdeploy.runtime.membership.membership import find_membership

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.runtime.tasks import Tasks

PS = Task("ps", 0)


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a watch be less patient than with people."""
    for name, seconds in (
        ("SAY_AFTER", 0.5),
        ("HOPELESS_AFTER", 1.0),
    ):
        monkeypatch.setattr(module, name, seconds)


class Words(list[str]):
    """What a watch has said."""

    def until(self, words: str, patience: float = 60.0) -> str:
        """Wait for a line with `words` in it, and return it."""
        end = time.monotonic() + patience
        while time.monotonic() < end:
            for line in self:
                if words in line:
                    return line
            time.sleep(0.05)
        pytest.fail(f"{words!r} is not in {self!r}")


def watch(tasks: Tasks, *needed: Task, timeout: float = 60.0, **overrides: Any) -> tuple[TaskMonitor, Words]:
    """Return a client's watch over the tasks of the spec's cluster, and what it will say."""
    spec, said = tasks.load(**overrides), Words()
    membership = find_membership(spec, {})
    assert membership is not None
    return TaskMonitor(membership, needed, said.append, timeout, spec), said


def refusal(looking: TaskMonitor) -> str:
    """Return with what message a watch gives up, within seconds."""
    begun = time.monotonic()
    with pytest.raises(RunError) as caught:
        looking.require("to start training")
    assert time.monotonic() - begun < looking.timeout
    return caught.value.diagnostic.message


def test_waits_for_who_is_late_and_says_for_whom(tasks: Tasks) -> None:
    """A task that starts late is named while it is missing, with host and reason, and when it is back."""
    looking, said = watch(tasks, PS, timeout=STARTING)
    waiting = threading.Thread(target=looking.require, args=("to start training",))
    waiting.start()
    line = said.until("waiting")
    assert line.startswith(f"waiting to start training: ps:0 at {tasks.address(0)} for ")
    assert line.endswith(": nothing listens there")
    server = tasks.serve("ps:0")
    server.until("listens")
    waiting.join(PATIENCE)
    assert not waiting.is_alive()
    assert said[-1] == f"ps:0 at {tasks.address(0)} is back"
    assert looking.missing() == ()


@pytest.mark.parametrize("training", [False, True])
def test_a_wait_is_told_again_when_it_has_doubled(tasks: Tasks, *, training: bool) -> None:
    """However long the wait, its lines are few: before and while training goes on."""
    looking, _ = watch(tasks, PS, timeout=3.0)
    told: list[float] = []
    looking.say = lambda _: told.append(looking._reported_after)
    if training:
        with looking.during("for step 7"):
            end = time.monotonic() + 60
            while looking.timed_out is None and time.monotonic() < end:
                time.sleep(0.1)
    else:
        with pytest.raises(RunError):
            looking.require("to start training")
    assert len(told) > 1
    assert told[0] >= module.SAY_AFTER
    assert all(second >= 2 * first for first, second in pairwise(told))


def test_a_stopped_task_is_missed_while_something_goes_on(tasks: Tasks) -> None:
    """Without progress a thread looks who is missing; after `timeout` seconds that is an error."""
    server = tasks.serve("ps:0")
    server.until("listens")
    looking, said = watch(tasks, PS, timeout=STARTING)
    looking.require("to start training")
    assert said == []
    with looking.during("for step 7"):
        server.send(signal.SIGSTOP)
        (missing,) = looking.missing(1.0)
        assert (missing.task, missing.address, missing.reason) == (
            PS,
            tasks.address(0),
            "connections are taken, and nothing answers",
        )
        said.until("waiting for step 7: ps:0 at")
        server.send(signal.SIGCONT)
        said.until("is back")
        assert looking.timed_out is None
        looking.timeout = 2.0
        server.send(signal.SIGSTOP)
        end = time.monotonic() + 60
        while looking.timed_out is None and time.monotonic() < end:
            time.sleep(0.1)
        server.send(signal.SIGCONT)
    assert looking.timed_out is not None
    diagnostic = looking.timed_out.diagnostic
    assert diagnostic.message == "gave up after 2.00 s of waiting for step 7: 1 task missing"
    assert diagnostic.notes[0].startswith(f"ps:0 at {tasks.address(0)} for ")


def test_progress_keeps_the_watch_quiet(tasks: Tasks) -> None:
    """While things go on, nobody is looked for."""
    looking, said = watch(tasks, PS)
    with looking.during("for a step"):
        for _ in range(20):
            looking.progress()
            time.sleep(0.1)
    assert said == []
    assert looking.timed_out is None


def test_who_answers_must_be_who_should(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another task, another spec and another version are refused within seconds, in words."""
    tasks.serve("ps:0").until("listens")
    at = tasks.address(0)
    spec = tasks.load()
    swapped = Cluster.of({"ps": [tasks.address(1)], "worker": [at, tasks.address(2)]})
    looking = TaskMonitor(Membership(swapped, None, fingerprint(spec)), (Task("worker", 0),), print, 60.0)
    assert refusal(looking) == f"`ps:0` answers at {at}, where `worker:0` should be"
    looking, _ = watch(tasks, PS, clones__batch=16)
    assert refusal(looking) == f"`ps:0` at {at} runs another spec than this process"
    looking, _ = watch(tasks, PS, train__directory="elsewhere")
    looking.require("to start training")
    monkeypatch.setattr(module, "versions", lambda: ("0.1.0", "2.22.0"))
    assert refusal(looking) == f"`ps:0` at {at} runs TensorFlow 2.21.0, this process 2.22.0"


def test_another_program_at_the_port(tasks: Tasks, listener: Callable[[bytes | None], int]) -> None:
    """A program that speaks something else is told from a server that is stopped."""
    tasks.ports[0] = listener(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    tasks.write()
    looking, _ = watch(tasks, PS)
    assert refusal(looking) == (
        f"something that is no TensorFlow server answers at {tasks.address(0)}, where `ps:0` should be"
    )
    tasks.ports[0] = listener(None)
    tasks.write()
    looking, _ = watch(tasks, PS)
    (missing,) = looking.missing(0.5)
    assert missing.reason == "connections are taken, and nothing answers"


class FalseClock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass at once."""
        self.now += seconds


def test_a_host_that_is_not_there(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown host is refused within seconds if the spec names it, and waited for otherwise."""
    monkeypatch.setattr(module, "time", FalseClock())
    tasks.write('hosts = ["nowhere.invalid:2222"]')
    looking, said = watch(tasks, PS)
    assert refusal(looking) == (
        "`ps:0` cannot be reached at nowhere.invalid:2222: the name `nowhere.invalid` is not known"
    )
    assert said[0].startswith("waiting to start training: ps:0 at nowhere.invalid:2222 for")
    patient = TaskMonitor(evolve(looking.membership, given_by="TF_CONFIG"), (PS,), said.append, 2.0)
    assert refusal(patient) == "gave up after 2.00 s of waiting to start training: 1 task missing"
