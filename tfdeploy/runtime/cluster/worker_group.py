"""The state that all workers share: one worker reads it, changes it, waits for it, and reports its updates.

All waiting happens here. A worker polls, or is woken by others; it wakes itself ten times a second, because
no op of TensorFlow may wait for another worker without an end. So a worker that waits notices a signal, a new
generation and the end of training at once, whichever tasks are missing.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.workers.coordination import FINISHED, OPEN, Coordination, State
from compiler.graph.workers.exchange import REPORTED, WorkerExchange
from compiler.plan import Worker
from tfdeploy.runtime.session.engine import Engine
from tfdeploy.runtime.stop import StopSignals, alongside

WAKE_EVERY = 0.1
"""The seconds after which a worker looks around, if no other has woken it."""

SHORTEST, LONGEST = 0.0002, 0.02
"""The first and the longest pause between two readings of the shared state, in seconds."""

GROWTH = 1.5
"""How much longer each pause is than the one before: a long wait costs little, a short one ends soon."""

PATIENT = 0.5  # the longest pause, in seconds, if training has not begun or is over


@define
class WorkerGroup:
    """One worker's view of all workers."""

    engine: Engine = field(repr=False)
    stop: StopSignals = field(repr=False)
    say: Callable[[str], None] = field(default=lambda _: None, repr=False)
    # The generation in which the worker trains. The chief begins a new one after each loss of a task.
    generation: int = 0
    life: int = 0  # the number of the worker's own start within the generation
    _since: float = field(default=math.inf, init=False)  # when the wait for a bell has begun

    @property
    def exchange(self) -> WorkerExchange:
        """The ops of the worker's graph."""
        exchange = self.engine.compiled.exchange
        assert exchange is not None
        return exchange

    def begin(self) -> None:
        """Let the chief begin a generation, and give the variables their first values."""
        self.announce()
        self.engine.initialise()

    @property
    def ops(self) -> Coordination:
        """The ops for the state that all workers share."""
        assert self.exchange.coordination is not None
        return self.exchange.coordination

    @property
    def worker(self) -> Worker:
        """The worker whose view this is."""
        return self.exchange.worker

    @property
    def name(self) -> str | None:
        """The worker's task, if its steps are its own; None if a step is one of all workers."""
        return None if self.exchange.step is None else self.worker.task(self.worker.index)

    # --- reading ------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the shared state as it is now."""
        return State.of(self.engine.repeated("state", lambda: self.ops.state))

    def post(self, tick: int, *, traced: bool = False) -> State:
        """Put the gradients of a step into mailboxes (sync); return the state when this worker is woken."""
        fetches = [self.exchange.post, self.exchange.posted]
        return self._heard("post", fetches, {self.exchange.tick: tick}, traced=traced)

    def until_rung(self, ready: Callable[[State], bool], state: State | None = None) -> State | None:
        """Wait as `until` does, but be woken by others, which takes fewer readings (sync)."""
        while state is None or not ready(state):
            self._check(state)
            if self.stop.received is not None:
                return None
            self.raise_if_timed_out()
            state = self._state_if_there(lambda: self._heard("heard", [self.exchange.heard]))
        self._check(state)
        self.progress()
        return state

    def _heard(self, key: str, fetches: Any, feed: Any = None, *, traced: bool = False) -> State:
        with self.listening():
            return State.of(self.engine.repeated(key, lambda: fetches, feed, traced=traced)[-1])

    @contextmanager
    def listening(self, patience: float = 0.0) -> Iterator[None]:
        """Let this worker be woken during a block, which waits for its bell, but not before some seconds."""
        self._since = time.monotonic() + patience
        try:
            yield
        finally:
            self._since = math.inf

    @contextmanager
    def waking(self) -> Iterator[None]:
        """Wake this worker now and then during a block, so that it does not wait for others alone."""
        with alongside(self._wake, "bell"):
            yield

    def _wake(self, over: threading.Event) -> None:
        while not over.wait(WAKE_EVERY):
            if time.monotonic() - self._since > WAKE_EVERY:
                with suppress(tf.errors.OpError, RuntimeError):
                    self.engine.session.run(self.exchange.wake)

    def until(
        self, ready: Callable[[State], bool], longest: float = LONGEST, patience: float = math.inf
    ) -> State | None:
        """Wait until the shared state meets a condition.

        Args:
            longest: The longest pause between two readings, in seconds.
            patience: The seconds after which it returns in any case.

        Returns:
            The state; None if a signal comes first.

        Raises:
            RunError: If a task is missing for too long.
            tf.errors.AbortedError: On the chief, if a worker has found variables without values.
        """
        pause, end = SHORTEST, time.monotonic() + patience
        while True:
            state = self._state_if_there()
            self._check(state)
            if state is not None and ready(state):
                self.progress()
                return state
            if time.monotonic() > end:
                return state
            if self.stop.received is not None:
                return None
            self.raise_if_timed_out()
            time.sleep(pause)
            pause = min(pause * GROWTH, longest)

    def _check(self, state: State | None) -> None:
        """Raise an error on the chief if a worker has found variables without values."""
        if state is not None and self.worker.is_chief and state.lost == self.generation:
            raise tf.errors.AbortedError(None, None, "a worker has found variables gone")

    def progress(self) -> None:
        """Tell the monitor that training goes on."""
        self.engine.monitor.progress()

    def raise_if_timed_out(self) -> None:
        """Raise the error of the monitor, if it has one."""
        if self.engine.monitor.timed_out is not None:
            raise self.engine.monitor.timed_out

    def is_current(self, state: State) -> bool:
        """Whether the generation in which the worker trains is still open."""
        same = state.generation == self.generation and state.life[self.worker.index] == self.life
        return state.phase == OPEN and same

    def count_own(self, step: int | None = None, updates: int | None = None) -> None:
        """Note that this worker has trained on a batch of its own."""
        activity = self.engine.activity
        activity.examples += self.engine.compiled.plan.own_batch
        activity.step = activity.step if step is None else step
        activity.updates = updates

    @property
    def mine(self) -> tuple[int, int]:
        """The generation and life to feed to ops, which have no effect if either has changed."""
        return self.generation, self.life

    def _state_if_there(self, read: Callable[[], State] | None = None) -> State | None:
        """Return the state; None if its variables have no values, which only the chief can change."""
        try:
            return self.state() if read is None else read()
        except tf.errors.FailedPreconditionError:
            if self.worker.is_chief:
                raise
            return None

    def counted(self) -> tuple[int, int]:
        """Return the global step, and the examples of all steps so far."""
        state = self.state()
        return state.global_step, state.examples

    # --- changing -----------------------------------------------------------------------------------------

    def claim(self) -> tuple[bool, State]:
        """Try to claim an update; return whether one was claimed, and the state."""
        return self.claimed(self.engine.repeated("claim", lambda: self.ops.claim, {self.ops.mine: self.mine}))

    def update(self) -> Any:
        """Make an update; return the values of `WorkerExchange.step`."""
        return self.engine.repeated("update", lambda: self.exchange.step, {self.ops.mine: self.mine})

    def may_claim(self, state: State) -> bool:
        """Whether an update may be claimed in this state."""
        bound = self.engine.compiled.plan.update.staleness
        ahead = state.done[self.worker.index] + 1 - min(state.done)
        return state.begun < state.limit and (bound is None or ahead <= bound)

    @staticmethod
    def claimed(numbers: Sequence[int]) -> tuple[bool, State]:
        """Return whether an update was claimed, and the state, from what a claim has returned."""
        return bool(numbers[0]), State.of(numbers[1:])

    def join(self) -> State | None:
        """Wait until training is open or over, and enter its generation. None if a signal comes first."""
        state = self.until(lambda each: each.phase in {OPEN, FINISHED}, PATIENT)
        if state is not None:
            self.run(self.ops.join)
            state = self.state()
            self.generation, self.life = state.generation, state.life[self.worker.index]
        return state

    def revoke(self, state: State) -> list[int]:
        """Revoke the updates that other workers have claimed and not made; return these workers' numbers."""
        late = self.late(state)
        for each in late:
            self.run(self.ops.revoke, each)
        return late

    def late(self, state: State) -> list[int]:
        """Return the numbers of the other workers that have claimed updates and not made them."""
        return [
            worker
            for worker, (claimed, done) in enumerate(zip(state.claimed, state.done, strict=True))
            if claimed > done and worker != self.worker.index
        ]

    def run(self, op: Any, *given: int) -> None:
        """Run an op of the shared state, with at most three arguments of the chief's; missing ones are 0."""
        feed: Mapping[Any, Any] = {self.ops.mine: self.mine}
        if given:
            feed = {**feed, self.ops.given: (*given, 0, 0)[:3]}
        self.engine.session.run(op, feed)

    # --- the chief's --------------------------------------------------------------------------------------

    def announce(self) -> None:
        """Begin a new generation: all others stop, and wait until it opens."""
        self.generation = time.time_ns()
        self.run(self.ops.announce, self.generation)

    def open(self, step: int, examples: int) -> None:
        """Open the generation: all workers continue from `step`, after `examples` examples."""
        if self.exchange.clear is not None:
            self.run(self.exchange.clear)
        self.run(self.ops.open, self.generation, step, examples)

    def end(self, patience: float) -> None:
        """End the training, and wait up to `patience` seconds until the others have noticed it."""
        self.run(self.ops.end)
        until = time.monotonic() + patience
        others = [at for at in range(self.worker.count) if at != self.worker.index]
        pause = SHORTEST
        while time.monotonic() < until and not all(self.state().left[at] for at in others):
            time.sleep(pause)
            pause = min(pause * GROWTH, LONGEST)


@define
class UpdateReporter:
    """Makes updates of a worker that are reported, as often as steps are logged."""

    group: WorkerGroup = field(repr=False)
    _told_at: int = field(default=0, init=False)  # updates of the worker
    _since: float = field(factory=time.monotonic, init=False)
    _made: int = field(default=0, init=False)

    def is_due(self, state: State) -> bool:
        """Whether the next update is to be reported."""
        every = self.group.engine.compiled.plan.spec.train.log_every
        share = max(every // self.group.worker.count, 1)
        self._made = state.done[self.group.worker.index] + 1
        return self._made // share > self._told_at // share

    def update(self) -> Any:
        """Make an update and report it; return the values of `WorkerExchange.step`."""
        compiled, exchange = self.group.engine.compiled, self.group.exchange
        metrics = [each.result for each in compiled.metrics.values()]
        numbers, loss, data_loss, metrics = self.group.engine.repeated(
            "reported update",
            lambda: [exchange.step, compiled.total_loss, compiled.data_loss, metrics],
            {self.group.ops.mine: self.group.mine},
        )
        now = time.monotonic()
        speed = (self._made - self._told_at) * compiled.plan.own_batch / max(now - self._since, 1e-9)
        self._told_at, self._since = self._made, now
        report = [self._made, loss, data_loss, speed, *map(float, metrics)]
        self.group.engine.session.run(exchange.send_report, {exchange.report: report})
        return numbers


@define
class UpdateReports:
    """The reports of the other workers, each of which is returned once."""

    group: WorkerGroup = field(repr=False)
    _seen: dict[int, float] = field(factory=dict, init=False)

    def new_reports(self) -> Iterator[tuple[str, float, float, float, dict[str, float]]]:
        """Yield worker, loss, loss without regularisation, examples per second and metrics of new reports."""
        exchange, worker = self.group.exchange, self.group.worker
        if exchange.reports is None:
            return
        names = list(self.group.engine.compiled.metrics)
        for index, row in enumerate(self.group.engine.session.run(exchange.reports)):
            numbers = list(map(float, row))
            (made, loss, data_loss, speed), metrics = numbers[:REPORTED], numbers[REPORTED:]
            if index == worker.index or made in (0.0, self._seen.get(index)) or not math.isfinite(loss):
                continue
            self._seen[index] = made
            yield worker.task(index), loss, data_loss, speed, dict(zip(names, metrics, strict=True))
