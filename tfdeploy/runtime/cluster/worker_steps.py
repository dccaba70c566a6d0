"""The steps of the chief, and those of the other workers, if every worker has a graph of its own.

Other workers train their clones until the chief ends the training. They keep no state: neither the step
nor the weights nor any file. If one is killed and started again, it enters the present generation, and
continues to read its data from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

import tensorflow as tf
from attrs import define, evolve, field

from compiler.graph.compiled import CompiledGraph
from compiler.graph.storage.saving import add_saving
from compiler.graph.workers.coordination import FINISHED, State
from compiler.graph.workers.meeting import FINISHED as FINISHED_TRAINING
from compiler.graph.workers.meeting import MEETING, TAKING, MeetingState
from tfdeploy.data import Stream
from tfdeploy.runtime.cluster.replica_group import LEAVING, LOOK_EVERY, ReplicaGroup
from tfdeploy.runtime.cluster.roster import SAY_AFTER, Changed, Crew, Roster, order
from tfdeploy.runtime.cluster.session_target import SessionTarget
from tfdeploy.runtime.cluster.worker_group import LONGEST, PATIENT, UpdateReporter, WorkerGroup
from tfdeploy.runtime.session.data import BEGINNING, feed_training
from tfdeploy.runtime.session.engine import Engine, Refused, StepReport
from tfdeploy.runtime.session.faults import is_lost_task, located_examples, reason_of
from tfdeploy.runtime.session.steps import StepResult, Steps, SyncSteps
from tfdeploy.runtime.show.reporting import Reporter, duration
from tfdeploy.runtime.stop import StopSignals
from tfdeploy.runtime.watchdog import Activity

ALONE = 0.4  # seconds that a run of the chief waits for gradients without looking at anything else
LEAST_PATIENCE = 10.0  # seconds that a worker has at least for an update; and as many as the chief takes for:
UPDATES_OF_PATIENCE = 20


def chief_steps(group: WorkerGroup) -> Steps:
    """Return what makes the chief's steps."""
    if isinstance(group, ReplicaGroup):
        return ReplicaSteps(group)
    return AsyncChiefSteps(group) if group.exchange.step is not None else SyncChiefSteps(group)


class _ChiefSteps(Steps):
    """Runs an op together with its scores, for both kinds of steps."""

    def __init__(self, group: WorkerGroup) -> None:
        self.group = group
        plan = group.engine.compiled.plan
        self.sizes = [
            plan.micro_batches * sum(tower.batch for tower in towers) for towers in group.worker.everyone
        ]
        self._first = True

    def _run(self, op: Any, feed: Mapping[Any, Any], *, logged: bool) -> StepReport:
        first, self._first = self._first, False
        return self.group.engine.report("chief's step", op, feed, logged=logged or first, traced=first)


class SyncChiefSteps(_ChiefSteps):
    """One step of all workers at a time; the chief applies what has arrived."""

    def __init__(self, group: WorkerGroup) -> None:
        super().__init__(group)
        self.spared = group.engine.compiled.plan.update.backup
        self.tick = group.generation
        self._posted = -1
        self._arrived: tuple[int, ...] = ()
        self._waking = ExitStack()
        self._waking.enter_context(group.waking())
        group.engine.activity.causes["gradients"] = self._owing

    def next(self, *, logged: bool, until: int) -> StepResult:
        """Store the chief's gradients in its mailbox, wait for enough of the others', and apply all of them.

        If a signal comes first, no step is made.

        Args:
            logged: Whether the report of the step is needed. The first step always has one.
            until: Not used, because workers begin no step without the chief.

        Returns:
            The step; of zero steps if a signal has come.
        """
        del until
        first, present = self._first, [1.0] * self.group.worker.count
        self._arrived = ()
        report = self._in_one_run(logged=logged)
        if report is None:
            state, enough = self._post_own(), self.group.worker.count - self.spared
            state = self.group.until_rung(lambda each: self._has_come(each, enough), state)
            if state is None:
                return StepResult(0, 0.0, steps=0)
            present = [float(each == self.tick) for each in state.arrived]
            exchange = self.group.exchange
            feed = {} if exchange.present is None else {exchange.present: present}
            report = self._run(exchange.apply, feed, logged=logged)
        self.group.count_own()
        self.tick += 1
        examples = sum(size for size, here in zip(self.sizes, present, strict=True) if here)
        return StepResult(examples, report.data_loss, report if logged or first else None)

    def _in_one_run(self, *, logged: bool) -> StepReport | None:
        """Make a step in one run, as long as the others' gradients come soon.

        Returns:
            The report of the step; None if it is to be made in two runs, between which the chief looks
            around: if it is the first step, if gradients are late, or if the step may go without some.
        """
        group, exchange = self.group, self.group.exchange
        if self._first or self.spared or self._posted == self.tick:
            return None
        assert exchange.at_once is not None
        heard, came = exchange.at_once
        feed, replaced = {exchange.tick: self.tick}, {came: heard}
        try:
            with group.listening(ALONE):
                report = group.engine.report(
                    "chief's only run", exchange.apply, feed, logged=logged, replaced=replaced
                )
        except (tf.errors.InvalidArgumentError, tf.errors.CancelledError) as fault:
            if not self._is_only_late(fault):
                raise
            self._posted = self.tick
            return None
        group.progress()
        return report

    def _is_only_late(self, fault: tf.errors.OpError) -> bool:
        """Whether a run has failed because gradients have not come, and the chief's own have been posted.

        Of what fails on one task, TensorFlow now and then reports only that another one was cancelled.
        """
        if isinstance(fault, tf.errors.InvalidArgumentError):
            return f"{{node {self.group.exchange.required}}}" in fault.message
        state = self.group.state()
        posted = state.arrived[self.group.worker.index]
        return self.group.is_current(state) and posted == state.tick == self.tick

    def _has_come(self, state: State, enough: int) -> bool:
        self._arrived = state.arrived
        return state.arrived.count(self.tick) >= enough

    def _owing(self) -> list[tuple[str, None]]:
        """Return a sentence about each worker whose gradients have not arrived yet."""
        late = [at for at, arrived in enumerate(self._arrived) if arrived != self.tick]
        return [(f"the gradients of {self.group.worker.task(each)} have not come", None) for each in late]

    def close(self) -> None:
        """Be woken no more."""
        self._waking.close()

    def _post_own(self) -> State | None:
        if self._posted == self.tick:
            return None
        state = self.group.post(self.tick, traced=self._posted < 0)
        self._posted = self.tick
        return state


class ReplicaSteps(SyncSteps):
    """One step of all workers at a time, which each of them applies to its own weights."""

    def __init__(self, group: ReplicaGroup) -> None:
        super().__init__(group.engine)
        self.group = group
        with ExitStack() as looking:
            looking.enter_context(group.looked_after())
            group.share()  # what a broken step has not given out yet
            self._looking = looking.pop_all()

    def settle(self) -> list[StepResult]:
        """Wait for the steps of all workers."""
        self.group.settle()
        return []

    def close(self) -> None:
        """Look after no more steps."""
        self._looking.close()

    def _once(self, *, logged: bool) -> StepResult:
        """Make a step, or none if a signal comes while a worker is missing."""
        first = self._first
        self.group.raise_if_timed_out()
        if not self.group.collect(traced=first):
            return StepResult(0, 0.0, steps=0)
        self._first, logged = False, logged or first
        report = self._engine.report("apply", self.group.exchange.apply, logged=logged, traced=first)
        self.group.applied()
        self.group.count_own()
        if self.group.crew is not None:
            self.group.crew.stepped()
        return StepResult(
            self._examples, report.data_loss, report if logged else None, applied=report.applied
        )


class AsyncChiefSteps(_ChiefSteps):
    """The chief makes updates as the other workers do, and counts the updates of all workers."""

    def __init__(self, group: WorkerGroup) -> None:
        super().__init__(group)
        self.stride = group.worker.count
        state = group.state()
        self.start = self.seen = state.global_step
        self.done = state.done
        self.allowed = state.limit
        self.claimed = False
        self.loss = 0.0
        self.slowest = 0.0  # seconds of an update of the chief's own
        self._late: list[int] = []  # the workers whose updates the chief waits for
        group.engine.activity.causes["updates"] = self._owing

    def next(self, *, logged: bool, until: int) -> StepResult:
        """Make an update, or wait for one of another worker; return all updates since the last call."""
        if self.start + until != self.allowed:
            self.allowed = self.start + until
            self.group.run(self.group.ops.allow, self.allowed)
        if not self.claimed:
            self.claimed, state = self.group.claim()
            if not self.claimed:
                return self._others(state)
        return self._update(logged=logged)

    def _update(self, *, logged: bool) -> StepResult:
        first, group = self._first, self.group
        begun = time.perf_counter()
        report = self._run(group.exchange.step, {group.ops.mine: group.mine}, logged=logged)
        self.slowest = max(self.slowest, time.perf_counter() - begun)
        group.progress()
        self.claimed, state = group.claimed(report.returned)
        group.count_own(updates=state.done[group.worker.index])
        self.loss = report.data_loss
        done = self._made(state)
        return evolve(done, report=report) if logged or first else done

    def _others(self, state: State) -> StepResult:
        """Wait until another worker has made an update, because the chief may not make one now."""
        found: State | None = state
        if state.global_step == self.seen:
            found = self._patiently(
                lambda each: each.global_step > self.seen or self.group.may_claim(each), LONGEST
            )
        return StepResult(0, self.loss, steps=0) if found is None else self._made(found)

    def _patiently(self, ready: Callable[[State], bool], longest: float) -> State | None:
        """Wait for the others, and revoke an update that a worker does not finish in time.

        That worker may have ended, be stopped or be unreachable, and can take part again later. Returns None
        if a signal comes first.
        """
        while True:
            patience = max(LEAST_PATIENCE, UPDATES_OF_PATIENCE * self.slowest)
            state = self.group.until(lambda each: self._is_over(each, ready), longest, patience)
            if state is None or ready(state):
                self._late = []
                return state
            for late in self.group.revoke(state):
                task = self.group.worker.task(late)
                self.group.say(f"{task} has not ended its update for {patience:.0f} s: others make it")

    def _is_over(self, state: State, ready: Callable[[State], bool]) -> bool:
        self._late = self.group.late(state)
        return ready(state)

    def _owing(self) -> list[tuple[str, None]]:
        """Return a sentence about each worker that has not ended its update yet."""
        return [(f"{self.group.worker.task(each)} has not ended its update", None) for each in self._late]

    def _made(self, state: State) -> StepResult:
        """Return the updates of all workers since the last call."""
        steps = state.global_step - self.seen
        made = [now - before for now, before in zip(state.done, self.done, strict=True)]
        examples = sum(size * each for size, each in zip(self.sizes, made, strict=True))
        self.seen, self.done = state.global_step, state.done
        return StepResult(examples, self.loss, steps=steps)

    def settle(self) -> list[StepResult]:
        """Permit no further update, make the one that was claimed, and wait for those of the others."""
        self.group.run(self.group.ops.freeze)
        self.allowed = -1
        found = []
        while self.claimed:
            found.append(self._update(logged=False))
        state = self._patiently(lambda each: each.global_step >= each.begun, PATIENT / 10)
        while state is not None and state.begun < state.limit:  # what was taken from a worker is free again
            self.group.run(self.group.ops.freeze)
            state = self._patiently(lambda each: each.global_step >= each.begun, PATIENT / 10)
        found.append(self._made(self.group.state() if state is None else state))
        return [each for each in found if each.steps]


@define
class WorkerLoop:
    """The training of a worker that has a graph of its own."""

    compiled: CompiledGraph = field(repr=False)
    stream: Stream = field(repr=False)  # the training data of all workers, of which this one reads its share
    target: SessionTarget = field(repr=False)
    stop: StopSignals = field(repr=False)
    reporter: Reporter = field(repr=False)
    activity: Activity = field(factory=Activity, repr=False)
    _saving: Any = field(default=None, init=False, repr=False)
    _lost: int | None = field(default=None, init=False)  # the generation whose variables were gone

    def train(self) -> int:
        """Train until the chief ends the training or a signal comes, and return the global step then.

        If a task is lost, the worker waits until it is back.
        """
        self._saving = add_saving(self.compiled)
        while (step := self._train_while_all_are_there()) is None:
            time.sleep(PATIENT)
        return step

    def _train_while_all_are_there(self) -> int | None:
        """Train as `train` does; return None if a task is lost."""
        self.target.wait_for_tasks("to train", self.stop.check)
        session = self.target.session(self.compiled)
        engine = Engine(self.compiled, session, self._saving, starters=self.target.starters)
        engine.activity = self.activity
        self.target.attach_monitors(engine)
        group = self.target.group(engine, self.stop, lambda _: None)
        try:
            with engine.monitor.during("for the chief and the variables"):
                with engine.activity.doing("reaching the chief and the variables"):
                    self.target.reach(engine, self.stop.check)
                    self._report_loss(group)
                return self._train(group)
        except tf.errors.OpError as fault:
            if not is_lost_task(fault, engine.lost):
                raise
            if isinstance(fault, tf.errors.FailedPreconditionError | tf.errors.NotFoundError):
                self._lost = group.generation
            self._interrupted(fault)
        finally:
            engine.close()
        return None

    def _interrupted(self, fault: tf.errors.OpError) -> None:
        if not isinstance(fault, Changed):
            self.reporter.note(f"interrupted: {reason_of(fault)}")

    def _report_loss(self, group: WorkerGroup) -> None:
        """Report to the chief that a server has come back without its variables."""
        if self._lost is not None:
            group.generation, self._lost = self._lost, None
            group.run(group.ops.lose)

    def _train(self, group: WorkerGroup) -> int:
        step = 0
        while True:
            with self._waiting(group, "begins or ends the training"):
                state = group.join()
            if state is None:
                return step
            step = state.global_step
            if state.phase == FINISHED:
                group.run(group.ops.leave)
                return step
            with group.engine.activity.doing(BEGINNING):
                feed_training(group.engine, self.stream, state.examples)
            try:
                with located_examples(f"a step after {state.global_step}", group.engine, self.stream):
                    (self._updates if group.exchange.step is not None else self._gradients)(group)
            except Refused as fault:
                if not group.engine.has_only_read(fault):
                    raise
            if self.stop.received is not None:
                group.run(group.ops.join)  # which gives back what was claimed
                return group.state().global_step

    def _gradients(self, group: WorkerGroup) -> None:
        """Store gradients in the worker's mailbox for every step of the generation (sync)."""
        state = group.until(lambda _: True)
        with group.waking():
            while state is not None and group.is_current(state):
                posted, came = state.tick, None
                if state.arrived[group.worker.index] != posted:
                    with group.engine.activity.doing("computing the gradients of a step", kind="step"):
                        came = group.post(posted)
                    group.count_own(state.global_step + 1)
                with self._waiting(group, "makes the step"):
                    state = group.until_rung(
                        lambda each: not group.is_current(each) or each.tick != posted,  # noqa: B023
                        came,
                    )

    def _updates(self, group: WorkerGroup) -> None:
        """Make updates while there are any to be claimed (async)."""
        teller = UpdateReporter(group)
        while self.stop.received is None:
            claimed, state = group.claim()
            while claimed and self.stop.received is None:
                with group.engine.activity.doing("making an update", kind="step"):
                    numbers = teller.update() if teller.is_due(state) else group.update()
                claimed, state = group.claimed(numbers)
                group.count_own(state.global_step, state.done[group.worker.index])
                group.progress()
            if not group.is_current(state) or not self._wait_for_work(group):
                return

    def _wait_for_work(self, group: WorkerGroup) -> State | None:
        with self._waiting(group, "lets further updates be made"):
            return group.until(lambda each: not group.is_current(each) or group.may_claim(each))

    @staticmethod
    def _waiting(group: WorkerGroup, until: str) -> AbstractContextManager[None]:
        """Say during a block what this worker waits for the chief to do."""
        what = f"the wait until {group.worker.task(0)} {until}"
        return group.engine.activity.doing(what, kind=until, waiting=True)


class ReplicaLoop(WorkerLoop):
    """The training of a worker that has all weights."""

    def _train(self, group: WorkerGroup) -> int:
        assert isinstance(group, ReplicaGroup)
        while True:
            with self._waiting(group, "begins or ends the training"):
                state = self._join(group)
            step = group.standing().step
            if state is None:
                return step
            if state.phase == FINISHED_TRAINING:
                group.run(group.meeting.leave, 1)
                return step
            with located_examples(f"a step after {step}", group.engine, self.stream):
                self._steps(group)
            if self.stop.received is not None:
                group.outlast()
                return group.standing().step

    def _join(self, group: ReplicaGroup) -> MeetingState | None:
        """Meet the other workers until steps are made, or training is over. None if a signal comes first."""
        while True:
            state: MeetingState | None = group.until(lambda _: True, PATIENT)
            if state is None or state.phase == FINISHED_TRAINING or group.is_current(state):
                return state
            seen = state.generation
            if group.crew is not None and group.crew.generation != seen:
                group.raise_if_timed_out()
                time.sleep(LONGEST)
                continue
            if state.phase == MEETING and group.generation != seen:
                group.generation = seen
                group.meet()
            elif state.phase == TAKING and group.generation == seen and group.can_take(state):
                group.exchange.drain(group.engine.session.run)
                group.take(state.source, group.stands(state, state.source))
                with group.engine.activity.doing(BEGINNING):
                    feed_training(group.engine, self.stream, group.standing().examples)
                group.run(group.meeting.ready, seen)
            elif group.generation != seen or state.phase == TAKING:
                group.run(group.meeting.lose, seen)  # this process was not there when the others met
            phase = state.phase
            group.until(lambda each: (each.generation, each.phase) != (seen, phase), group.pause)  # noqa: B023

    def _goes_on(self, group: ReplicaGroup) -> bool:  # noqa: ARG002 for workers that leave
        return self.stop.received is None

    def _steps(self, group: ReplicaGroup) -> None:
        """Make steps until they break, or training is over."""
        made = group.standing().step
        try:
            with group.looked_after():
                group.share()
                while self._goes_on(group):
                    with group.engine.activity.doing("making a step", kind="step"):
                        if not group.collect():
                            return
                        group.engine.repeated("apply", lambda: group.exchange.apply)
                        group.applied()
                    made += 1
                    group.count_own(made)
                    group.progress()
        except tf.errors.OpError:
            if not group.woken:
                with suppress(tf.errors.OpError):
                    group.run(group.meeting.lose, group.generation)
            elif group.state().phase == FINISHED_TRAINING:
                return
            raise


@define
class ChangingLoop(ReplicaLoop):
    """The training of a worker that comes and goes, through all generations."""

    compiled: CompiledGraph = field(init=False, repr=False)
    # The training data, as soon as this worker is about to train.
    stream: Stream = field(init=False, repr=False)
    target: SessionTarget = field(init=False, repr=False)
    open_stream: Callable[[], Stream] = field(kw_only=True, repr=False)
    crew: Crew = field(kw_only=True, repr=False)
    # Whether the chief has said to this worker's server that training is over.
    is_over: Callable[[], bool] = field(kw_only=True, repr=False)
    is_chief: bool = field(default=False, init=False)
    _left: float | None = field(default=None, init=False)  # when it has said that it leaves

    def train(self) -> int:
        """Train in every generation that has this worker and another chief; return the global step then."""
        step, self.is_chief = 0, False
        while (roster := self._next_roster()) is not None:
            self.crew.enter(roster)
            self.stream = self.crew.stream = self.crew.stream or self.open_stream()
            self.compiled, self._saving, self.target = self.crew.opening()
            found = self._train_while_all_are_there()
            if found is not None:
                return found
        return step

    def _next_roster(self) -> Roster | None:
        """Wait for another roster that has this worker. None if a signal comes first, or training is over.

        It also is None if this worker is the chief from now on.
        """
        crew, begun, ready, said = self.crew, time.monotonic(), False, SAY_AFTER
        while self.stop.received is None and not self.is_over():
            found, self.is_chief = crew.look()
            if self.is_chief:
                return None
            if found is not None:
                if found.over:
                    return None
                # Without its chief it is that of a process that this one replaces, or of others that lost it.
                if crew.led and crew.own in found.members and found.number != crew.generation:
                    return found
            if not ready:
                crew.stream = crew.stream or self.open_stream()
                if found is not None:  # so that the others do not wait for its graph
                    crew.graph(order(found.members[0], (*found.members, crew.own)), found.seed)
                crew.say(ready=True)
                ready = True
            crew.require(lambda: [crew.chief], "to train", max(begun, crew.heard))
            if (waited := time.monotonic() - begun) > said:
                said *= 2
                self.reporter.note(f"waiting for {duration(waited)} to train with {crew.chief}")
            time.sleep(LOOK_EVERY)
        return None

    def _goes_on(self, group: ReplicaGroup) -> bool:
        """Whether to make another step: also after a signal, until the others go on without this worker."""
        if self.stop.received is None:
            return True
        if self._left is None:
            self._left = time.monotonic()
            self.crew.say(ready=False)
            group.run(group.meeting.leave, 1)
        return time.monotonic() - self._left < LEAVING


def loop_of(compiled: CompiledGraph) -> type[WorkerLoop]:
    """Return what trains the worker that has this graph."""
    assert compiled.exchange is not None
    return WorkerLoop if compiled.exchange.meeting is None else ReplicaLoop
