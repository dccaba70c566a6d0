"""What the chief does in the end with the updates of all workers, and when a step of all cannot end."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from attrs import define, evolve, field

from compiler.graph.workers.coordination import State
from compiler.graph.workers.meeting import OPEN
from tfdeploy.runtime.cluster.monitor import MissingTask
from tfdeploy.runtime.cluster.replica_group import ReplicaGroup
from tfdeploy.runtime.cluster.worker_group import WorkerGroup
from tfdeploy.runtime.cluster.worker_steps import AsyncChiefSteps
from tfdeploy.runtime.membership.addresses import Task

BEGINNING = State(1, 1, 0, 0, 4, 0, 4, 4, (0, 4), (0, 4), (1, 1), (0, 0), (False, False))
OPS = SimpleNamespace(freeze="freeze")
WORKER = SimpleNamespace(
    count=2,
    index=0,
    everyone=[[SimpleNamespace(batch=3)], [SimpleNamespace(batch=5)]],
    task=lambda index: f"worker:{index}",
)
ENGINE = SimpleNamespace(
    compiled=SimpleNamespace(plan=SimpleNamespace(micro_batches=1)), activity=SimpleNamespace(causes={})
)


@define
class Group:
    """The group as its chief sees it: the other worker makes an update whenever the chief looks."""

    now: State = BEGINNING
    exchange: None = None
    ops: SimpleNamespace = OPS
    worker: SimpleNamespace = WORKER
    engine: SimpleNamespace = ENGINE
    told: list[str] = field(factory=list)

    def state(self) -> State:
        """Return the state."""
        return self.now

    def run(self, op: str) -> None:
        """Run `freeze`, after which no update can be claimed."""
        assert op == self.ops.freeze
        self.now = evolve(self.now, limit=min(self.now.limit, self.now.begun))

    def late(self, state: State) -> list[int]:
        """Return the workers that have not ended their updates."""
        return WorkerGroup.late(cast("Any", self), state)

    def until(self, ready: Callable[[State], bool], *_: float) -> State:
        """Let the other worker end its update, and claim another if it may, until the state is right."""
        for _round in range(20):
            now = self.now
            if now.begun > now.global_step:
                ready(evolve(now, claimed=(0, now.done[1] + 1)))
                self.told += [words for words, _ in self.engine.activity.causes["updates"]()]
                done = (now.done[0], now.done[1] + 1)
                now = evolve(now, global_step=now.global_step + 1, done=done)
                if now.begun < now.limit:
                    now = evolve(now, begun=now.begun + 1)
            self.now = now
            if ready(now):
                return now
        raise AssertionError("what the chief waits for does not come")


@pytest.mark.parametrize(("kind", "ends"), [(None, False), ("silent", False), ("refused", True)])
def test_a_step_goes_on_while_a_worker_only_does_not_answer(kind: str | None, *, ends: bool) -> None:
    """A machine that is busy answers late, which is no reason to make a step anew; one that is gone is."""

    class Open(ReplicaGroup):
        def state(self) -> Any:
            return SimpleNamespace(phase=OPEN, generation=7, lost=0)

    absent = () if kind is None else (MissingTask(Task("worker", 1), "a:1", "", 0.0, kind),)
    engine: Any = SimpleNamespace(monitor=SimpleNamespace(timed_out=None, absent=absent))
    stop: Any = SimpleNamespace(received=None, arrived=None)
    assert Open(engine, stop, generation=7, open_session=lambda _: None)._cannot_end(60.0) is ends


def test_in_the_end_no_update_begins_that_had_not_begun() -> None:
    """The one that the other worker has in hand is waited for and counted, and eight more are not made."""
    group = Group()
    steps = AsyncChiefSteps(cast("Any", group))
    group.now = evolve(group.now, begun=5, limit=13)
    assert [(each.steps, each.examples) for each in steps.settle()] == [(1, 5)]
    assert (group.now.global_step, group.now.limit) == (5, 5)
    assert steps.settle() == []
    assert group.told == ["worker:1 has not ended its update"]
    assert list(ENGINE.activity.causes["updates"]()) == []


def test_the_chief_waits_until_all_others_have_noticed_the_end() -> None:
    """It looks again while any of the others is there; whether it is there itself does not count."""
    left = iter([(False, False), (False, False), (False, True)])
    ran: list[str] = []
    group = SimpleNamespace(
        ops=SimpleNamespace(end="end"),
        worker=SimpleNamespace(count=2, index=0),
        run=ran.append,
        state=lambda: evolve(BEGINNING, left=next(left)),
    )
    WorkerGroup.end(cast("Any", group), 600.0)
    assert ran == ["end"]
    assert list(left) == []
