"""Who is missing, who is wrong, and who is back: against real servers, stopped ones, and other programs."""

import signal
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors import cluster as errors
from tests.patience import wait_until
from tests.runtime.tasks import PATIENCE, STARTING, Tasks
from tests.support import refusal
from tfdeploy.runtime.cluster import monitor as module
from tfdeploy.runtime.cluster.identity import Answer, Identity, NoAnswer, versions
from tfdeploy.runtime.cluster.monitor import TaskMonitor, TaskStatus, are_enough
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task
from tfdeploy.runtime.membership.membership import find_membership, fingerprint
from tfdeploy.runtime.membership.secret import Secret

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


def given_up(looking: TaskMonitor) -> str:
    """Return with what message a watch gives up, within seconds."""
    begun = time.monotonic()
    found = refusal(looking.require, "to start training")
    assert time.monotonic() - begun < looking.timeout
    return found.message


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


@pytest.mark.family(every=2)
@pytest.mark.parametrize("training", [False, True])
def test_a_wait_is_told_again_when_it_has_doubled(tasks: Tasks, *, training: bool) -> None:
    """However long the wait, its lines are few: before and while training goes on."""
    looking, _ = watch(tasks, PS, timeout=3.0)
    told: list[float] = []
    looking.say = lambda _: told.append(looking._reported_after)
    if training:
        with looking.during("for step 7"):
            wait_until(lambda: looking.timed_out is not None)
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
        wait_until(lambda: looking.timed_out is not None)
        server.send(signal.SIGCONT)
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
    assert given_up(looking) == f"`ps:0` answers at {at}, where `worker:0` should be"
    looking, _ = watch(tasks, PS, clones__batch=16)
    assert given_up(looking) == f"`ps:0` at {at} runs another spec than this process"
    looking, _ = watch(tasks, PS, train__directory="elsewhere")
    looking.require("to start training")
    monkeypatch.setattr(module, "versions", lambda: ("0.1.0", "2.22.0"))
    assert given_up(looking) == f"`ps:0` at {at} runs TensorFlow 2.21.0, this process 2.22.0"


def test_who_ends_because_of_a_task_tells_the_others(tasks: Tasks) -> None:
    """They need not wait for it: a task that is gone is refused by what it has told, and no other one is."""
    tasks.serve("ps:0").until("listens")
    odd, _ = watch(tasks, PS, clones__batch=16)
    odd.membership = evolve(odd.membership, task=Task("worker", 1))
    assert given_up(odd) == f"`ps:0` at {tasks.address(0)} runs another spec than this process"
    told, other = (watch(tasks, Task("worker", gone))[0] for gone in (1, 0))
    for each in (told, other):
        each.membership = evolve(each.membership, task=PS)
    other.timeout = 0.0
    assert refusal(lambda: other.require("to begin")).code == "TFD763"
    found = refusal(lambda: told.require("to begin"))
    assert found.message == f"`worker:1` at {tasks.address(2)} runs another spec than this process"
    assert found.notes == ("`worker:1` has `batch = 16` where `ps:0` has `batch = 8`",)


def test_another_program_at_the_port(tasks: Tasks, listener: Callable[[bytes | None], int]) -> None:
    """A program that speaks something else is told from a server that is stopped."""
    tasks.ports[0] = listener(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    tasks.write()
    looking, _ = watch(tasks, PS)
    assert given_up(looking) == (
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
    assert given_up(looking) == (
        "`ps:0` cannot be reached at nowhere.invalid:2222: the name `nowhere.invalid` is not known"
    )
    assert said[0].startswith("waiting to start training: ps:0 at nowhere.invalid:2222 for")
    patient = TaskMonitor(evolve(looking.membership, given_by="TF_CONFIG"), (PS,), said.append, 2.0)
    assert given_up(patient) == "gave up after 2.00 s of waiting to start training: 1 task missing"


SPEC_DIGEST = "f00"
CLUSTER = Cluster.of({"ps": ["p:1"], "worker": [f"w{at}:1" for at in range(6)]})
WORKERS = CLUSTER.tasks[1:]


def answer(task: Task, **other: Any) -> Answer:
    """Return the answer of a task as it should be, but for what is other about it."""
    tfdeploy, tensorflow = versions()
    secret = Secret(b"ours").public_digest
    own = Identity(task.job, task.index, SPEC_DIGEST, tfdeploy, tensorflow, "1", "host", 7, 0.0, secret)
    return Answer(task, evolve(own, **other))


class Alone:
    """A watch over tasks that only pretend, by a clock that goes on only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *needed: Task, timeout: float = 1000.0) -> None:
        self.clock = FalseClock()
        self.answers: dict[str, Answer | NoAnswer] = {CLUSTER.address(each): answer(each) for each in needed}
        self.said: list[str] = []
        monkeypatch.setattr(module, "time", self.clock)
        monkeypatch.setattr(module, "ask", lambda address, _: self.answers[address])
        member = Membership(CLUSTER, None, SPEC_DIGEST, secret=Secret(b"ours"))
        self.monitor = TaskMonitor(member, needed, self.said.append, timeout)

    def let(self, task: Task, found: Answer | NoAnswer) -> None:
        """Let a task answer something else."""
        self.answers[CLUSTER.address(task)] = found


SILENT = NoAnswer("silent", "nothing answers")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"tensorflow": "1.0", "tfdeploy": "0"}, "runs TensorFlow 1.0, this process"),
        ({"tfdeploy": "0", "secret": "x"}, "runs tfdeploy 0, this process"),
        ({"secret": "x", "spec_sha256": "x"}, "does not have the secret of this process"),
        ({"spec_sha256": "x"}, "runs another spec than this process"),
    ],
)
def test_what_is_wrong_with_an_answer_is_said_in_order(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, str], message: str
) -> None:
    """A version explains another spec, so that it is said first; a right answer is not refused."""
    alone = Alone(monkeypatch, PS)
    assert alone.monitor.missing() == ()
    alone.let(PS, answer(PS, **other))
    assert message in refusal(alone.monitor.missing).message


def test_secrets_are_compared_only_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that shuts nobody down needs none."""
    alone = Alone(monkeypatch, PS)
    alone.let(PS, answer(PS, secret="x"))  # noqa: S106  no secret
    alone.monitor.membership = evolve(alone.monitor.membership, secret=None)
    assert alone.monitor.missing() == ()


def test_a_server_without_an_identity_may_be_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is missing for some seconds, and no server of tfdeploy after that; an answer begins anew."""
    alone = Alone(monkeypatch, PS)
    alone.let(PS, Answer(PS, None))
    for _ in range(2):
        (missing,) = alone.monitor.missing()
        assert (missing.reason, missing.kind) == ("it is starting", "silent")
        alone.clock.sleep(module.HOPELESS_AFTER)
    alone.let(PS, answer(PS))
    assert alone.monitor.missing() == ()
    alone.let(PS, Answer(PS, None))
    assert alone.monitor.missing() == alone.monitor.absent != ()
    alone.clock.sleep(module.HOPELESS_AFTER + 0.1)
    assert "a TensorFlow server that tfdeploy has not started" in refusal(alone.monitor.missing).message


@pytest.mark.parametrize(
    ("kind", "given_by", "hopeless"),
    [
        ("foreign", "spec", True),
        ("foreign", "TF_CONFIG", True),
        ("unknown host", "spec", True),
        ("unreachable", "spec", True),
        ("unreachable", "launch", False),
        ("refused", "spec", False),
        ("silent", "spec", False),
    ],
)
def test_when_waiting_cannot_help(
    monkeypatch: pytest.MonkeyPatch, kind: Any, given_by: Any, *, hopeless: bool
) -> None:
    """After some seconds, unless the task has answered before; a task that is late is waited for."""
    for answered in (False, True):
        alone = Alone(monkeypatch, PS)
        alone.monitor.membership = evolve(alone.monitor.membership, given_by=given_by)
        if answered:
            assert alone.monitor.missing() == ()
        alone.let(PS, NoAnswer(kind, "gone"))
        alone.monitor.missing()
        alone.clock.sleep(module.HOPELESS_AFTER - 0.1)
        assert len(alone.monitor.missing()) == 1
        alone.clock.sleep(0.1)
        if hopeless and not answered:
            with pytest.raises(RunError):
                alone.monitor.missing()
        else:
            assert len(alone.monitor.missing()) == 1


def test_a_task_is_missing_since_it_answered_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or since training last made progress, whichever was later; nobody is asked if nobody is needed."""
    alone = Alone(monkeypatch, PS)
    alone.clock.sleep(5)
    alone.monitor.missing()
    alone.clock.sleep(5)
    alone.let(PS, SILENT)
    assert [each.seconds for each in alone.monitor.missing()] == [5]
    alone.clock.sleep(1)
    assert alone.monitor.absent[0].words == "ps:0 at p:1 for 6.00 s: nothing answers"
    alone.let(PS, answer(PS))
    alone.monitor.missing()
    alone.clock.sleep(5)
    alone.monitor.progress()
    assert alone.monitor.absent == ()
    alone.let(PS, SILENT)
    assert [each.seconds for each in alone.monitor.missing()] == [0]
    own = TaskMonitor(evolve(alone.monitor.membership, task=PS), (PS,), alone.said.append, 1.0)
    assert (own.needed, own.missing()) == ((), ())


def test_four_of_the_missing_tasks_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are counted, and all that are back are named in order."""
    for count, more in ((4, []), (6, ["waiting to start: 2 more tasks"])):
        alone = Alone(monkeypatch, *WORKERS)
        for each in WORKERS[:count]:
            alone.let(each, SILENT)
        alone.monitor.missing()
        alone.clock.sleep(1)
        alone.monitor._report_missing(alone.monitor.missing(), "to start")
        assert [each.partition(" at ")[0] for each in alone.said[:4]] == [
            f"waiting to start: worker:{at}" for at in range(4)
        ]
        assert alone.said[4:] == more
        assert not alone.monitor._is_news(alone.monitor.absent)
        alone.clock.sleep(1)
        assert alone.monitor._is_news(alone.monitor.absent)
        alone.said.clear()
        alone.let(WORKERS[0], answer(WORKERS[0]))
        alone.monitor._report_missing(alone.monitor.missing(), "to start")
        assert alone.said[0] == "worker:0 at w0:1 is back"
        assert not alone.monitor._is_news(alone.monitor.absent)
        alone.monitor._report_returned(())
        assert alone.said[-1] == f"worker:{count - 1} at w{count - 1}:1 is back"
        assert alone.monitor._is_news(alone.monitor.absent)


def test_a_task_that_was_started_again_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As is one that is missing, and one that answers as somebody else."""
    alone = Alone(monkeypatch, PS)
    alone.monitor.require("to start")
    assert not alone.monitor.lost()
    for found, lost in (
        (answer(PS, incarnation="2"), True),
        (answer(PS), False),
        (SILENT, True),
        (answer(PS), False),
        (answer(PS, spec_sha256="x"), True),
    ):
        alone.let(PS, found)
        assert alone.monitor.lost() is lost
    alone.let(PS, answer(PS, incarnation="2"))
    alone.monitor.require("to start")
    assert not alone.monitor.lost()


def test_the_wait_ends_at_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task may be missing for less than that, and no task is named that has not been missing so long."""
    alone = Alone(monkeypatch, *WORKERS[:2], timeout=10.0)
    alone.let(WORKERS[0], SILENT)
    alone.monitor.missing()
    alone.clock.sleep(9.9)
    alone.let(WORKERS[1], SILENT)
    alone.monitor._answered[WORKERS[1]] = alone.clock.now
    alone.monitor._raise_if_too_long(alone.monitor.missing(), "to start")
    alone.clock.sleep(0.1)
    found = refusal(alone.monitor._raise_if_too_long, alone.monitor.missing(), "to start")
    assert found.message == "gave up after 10.0 s of waiting to start: 1 task missing"
    assert found.notes == ("worker:0 at w0:1 for 10.0 s: nothing answers",)


def test_a_launcher_that_has_given_up_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any task is asked."""
    alone = Alone(monkeypatch, PS)
    reason = errors.other_secret(ref="ps:0", address="p:1")
    alone.monitor.membership = evolve(alone.monitor.membership, launch_failure=lambda: reason)
    assert refusal(alone.monitor.missing) is reason
    alone.monitor.membership = evolve(alone.monitor.membership, launch_failure=lambda: None)
    assert alone.monitor.missing() == ()


@pytest.mark.parametrize(
    ("least", "well", "enough"),
    [
        (None, (True, True), True),
        (None, (True, False), False),
        (2, (True, True, False, False), True),
        (2, (True, False, False, True), True),
        (2, (True, False, False, False), False),
        (2, (False, True, True, True), True),
    ],
)
def test_tasks_that_come_and_go_need_not_all_be_there(
    least: int | None, well: tuple[bool, ...], *, enough: bool
) -> None:
    """But as many as the spec says at least, whichever they are."""
    spec = ir.Spec(ir.Model("m"), devices=ir.Devices(jobs=(ir.Job("worker", tasks=len(well), least=least),)))
    found = [TaskStatus(f"worker:{at}", "a:1", each, "") for at, each in enumerate(well)]
    assert are_enough(spec, found) is enough
