"""A worker that is not the chief: it trains its clones for as long as the chief lets it, and no more.

It keeps nothing: not the step, not the weights, not a file. Killed at any moment and started again, it takes
up the generation that it finds, and where its data is to go on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.storage.saving import add_saving
from compiler.graph.workers.coordination import FINISHED
from tfdeploy.runtime.cluster.workers.updates_told import Teller
from tfdeploy.runtime.cluster.workers.worker_group import PATIENT, Crew
from tfdeploy.runtime.pulse import Pulse
from tfdeploy.runtime.session.data import feed_training
from tfdeploy.runtime.session.engine import Engine
from tfdeploy.runtime.session.faults import located
from tfdeploy.runtime.session.lost_tasks import is_loss
from tfdeploy.runtime.session.tensorflow_words import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.graph.compiled import CompiledGraph
    from compiler.graph.workers.coordination import State
    from tfdeploy.data import Stream
    from tfdeploy.runtime.cluster.workers.session_target import Station
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals


@define
class Member:
    """A worker's training; `stream` is the whole of the training data, of which it reads its part."""

    compiled: CompiledGraph = field(repr=False)
    stream: Stream = field(repr=False)
    station: Station = field(repr=False)
    stop: StopSignals = field(repr=False)
    reporter: Reporter = field(repr=False)
    pulse: Pulse = field(factory=Pulse, repr=False)
    _saving: Any = field(default=None, init=False, repr=False)
    _lost: int | None = field(default=None, init=False)  # the generation whose variables were gone

    def train(self) -> int:
        """Train until the chief says that it is over, or a signal comes; return the global step then.

        A task that is lost is waited for. Raises RunError where that takes too long, and for what is wrong
        with the data.
        """
        self._saving = add_saving(self.compiled)
        while True:
            self.station.gather("to train", self.stop.check)
            engine = Engine(self.compiled, self.station.session(self.compiled), self._saving)
            engine.pulse = self.pulse
            self.station.equip(engine)
            crew = Crew(engine, self.stop, self.station.monitor)
            try:
                with self.station.looking_on("for the chief and the variables"):
                    self._report_loss(crew)
                    return self._train(crew)
            except tf.errors.OpError as fault:
                if not is_loss(fault, engine.lost):
                    raise
                if isinstance(fault, tf.errors.FailedPreconditionError | tf.errors.NotFoundError):
                    self._lost = crew.generation
                self.reporter.note(f"interrupted: {reason_of(fault)}")
                time.sleep(PATIENT)
            finally:
                engine.close()

    def _report_loss(self, crew: Crew) -> None:
        """Tell the chief that a server has come back without its variables, which it may not have noticed."""
        if self._lost is not None:
            crew.generation, self._lost = self._lost, None
            crew.run(crew.ops.lose)

    def _train(self, crew: Crew) -> int:
        step = 0
        while True:
            state = crew.join()
            if state is None:
                return step
            step = state.global_step
            if state.phase == FINISHED:
                crew.run(crew.ops.leave)
                return step
            feed_training(crew.engine, self.stream, state.examples)
            doing = f"a step after {state.global_step}"
            with located(doing, self.compiled, self.stream, crew.engine.lost):
                (self._updates if crew.exchange.step is not None else self._gradients)(crew)
            if self.stop.received is not None:
                crew.run(crew.ops.join)  # which gives back what was claimed
                return crew.state().global_step

    def _gradients(self, crew: Crew) -> None:
        """Put gradients where the chief takes them, for every step of the generation (sync)."""
        exchange, posted = crew.exchange, -1
        post: Callable[..., Any] = crew.engine.session.make_callable(exchange.post, feed_list=[exchange.tick])
        while True:
            state = crew.until(lambda each: not crew.is_current(each) or each.tick != posted)  # noqa: B023
            if state is None or not crew.is_current(state):
                return
            if state.arrived[crew.worker.index] != state.tick:
                with crew.engine.pulse.doing("its gradients of a step", kind="step"):
                    post(state.tick)
            posted = state.tick

    def _updates(self, crew: Crew) -> None:
        """Make updates for as long as there are any to be claimed (async)."""
        exchange, teller = crew.exchange, Teller(crew)
        update: Callable[..., Any] = crew.engine.session.make_callable(
            exchange.step, feed_list=[crew.ops.mine]
        )
        while self.stop.received is None:
            claimed, state = crew.claim()
            while claimed and self.stop.received is None:
                with crew.engine.pulse.doing("an update", kind="step"):
                    numbers = teller.update() if teller.is_due(state) else update(crew.mine)
                claimed, state = crew.claimed(numbers)
                crew.progress()
            if not crew.is_current(state) or not self._wait_for_work(crew):
                return

    @staticmethod
    def _wait_for_work(crew: Crew) -> State | None:
        return crew.until(lambda each: not crew.is_current(each) or crew.may_claim(each))
