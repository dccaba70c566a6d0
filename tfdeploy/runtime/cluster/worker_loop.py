"""A worker that is not the chief: it trains its clones until the chief ends the training.

It keeps no state: neither the step nor the weights nor any file. If it is killed and started again, it enters
the present generation, and continues to read its data from there.
"""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.storage.saving import add_saving
from compiler.graph.workers.coordination import FINISHED
from tfdeploy.runtime.cluster.worker_group import PATIENT, UpdateReporter, WorkerGroup
from tfdeploy.runtime.session.data import feed_training
from tfdeploy.runtime.session.engine import Engine
from tfdeploy.runtime.session.faults import is_lost_task, located_examples, reason_of
from tfdeploy.runtime.watchdog import Activity

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.workers.coordination import State
    from tfdeploy.data import Stream
    from tfdeploy.runtime.cluster.session_target import SessionTarget
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals


@define
class WorkerLoop:
    """The training of a worker that has a graph of its own.

    Attributes:
        compiled: The graph of the worker.
        stream: The training data of all workers, of which this one reads its share.
        target: The server at which the session is opened.
        stop: The signals at which the run stops.
        reporter: Shows the progress of the run.
        activity: What the run is doing, for the watchdog.
    """

    compiled: CompiledGraph = field(repr=False)
    stream: Stream = field(repr=False)
    target: SessionTarget = field(repr=False)
    stop: StopSignals = field(repr=False)
    reporter: Reporter = field(repr=False)
    activity: Activity = field(factory=Activity, repr=False)
    _saving: Any = field(default=None, init=False, repr=False)
    _lost: int | None = field(default=None, init=False)  # the generation whose variables were gone

    def train(self) -> int:
        """Train until the chief ends the training or a signal comes, and return the global step then.

        If a task is lost, the worker waits until it is back.

        Raises:
            RunError: If that takes too long, or the data cannot be read.
        """
        self._saving = add_saving(self.compiled)
        while True:
            self.target.wait_for_tasks("to train", self.stop.check)
            engine = Engine(self.compiled, self.target.session(self.compiled), self._saving)
            engine.activity = self.activity
            self.target.attach_monitors(engine)
            group = WorkerGroup(engine, self.stop)
            try:
                with engine.monitor.during("for the chief and the variables"):
                    self._report_loss(group)
                    return self._train(group)
            except tf.errors.OpError as fault:
                if not is_lost_task(fault, engine.lost):
                    raise
                if isinstance(fault, tf.errors.FailedPreconditionError | tf.errors.NotFoundError):
                    self._lost = group.generation
                self.reporter.note(f"interrupted: {reason_of(fault)}")
                time.sleep(PATIENT)
            finally:
                engine.close()

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
            feed_training(group.engine, self.stream, state.examples)
            with located_examples(f"a step after {state.global_step}", group.engine, self.stream):
                (self._updates if group.exchange.step is not None else self._gradients)(group)
            if self.stop.received is not None:
                group.run(group.ops.join)  # which gives back what was claimed
                return group.state().global_step

    def _gradients(self, group: WorkerGroup) -> None:
        """Store gradients in the worker's mailbox for every step of the generation (sync)."""
        exchange, posted = group.exchange, -1
        while True:
            with self._waiting(group, "makes the step"):
                state = group.until(lambda each: not group.is_current(each) or each.tick != posted)  # noqa: B023
            if state is None or not group.is_current(state):
                return
            if state.arrived[group.worker.index] != state.tick:
                with group.engine.activity.doing("computing the gradients of a step", kind="step"):
                    group.engine.repeated("post", lambda: exchange.post, {exchange.tick: state.tick})
            posted = state.tick

    def _updates(self, group: WorkerGroup) -> None:
        """Make updates while there are any to be claimed (async)."""
        teller = UpdateReporter(group)
        while self.stop.received is None:
            claimed, state = group.claim()
            while claimed and self.stop.received is None:
                with group.engine.activity.doing("making an update", kind="step"):
                    numbers = teller.update() if teller.is_due(state) else group.update()
                claimed, state = group.claimed(numbers)
                group.progress()
            if not group.is_current(state) or not self._wait_for_work(group):
                return

    def _wait_for_work(self, group: WorkerGroup) -> State | None:
        with self._waiting(group, "lets further updates be made"):
            return group.until(lambda each: not group.is_current(each) or group.may_claim(each))

    @staticmethod
    def _waiting(group: WorkerGroup, until: str) -> AbstractContextManager[None]:
        """Say during a block what this worker waits for the chief to do."""
        return group.engine.activity.doing(f"the wait until {group.worker.task(0)} {until}", kind=until)
