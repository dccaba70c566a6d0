"""Workers that each have all weights: how they agree on where to go on, and make steps together.

A step waits inside TensorFlow for the parts of the other workers. A thread looks after it meanwhile: if the
step cannot end, because a worker is missing or has begun anew, it puts messages into this worker's own queues
that are of no step, by which the waiting ends with an error. Nothing has been changed then, and all workers
meet again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.variables.nodes import variables_of
from compiler.graph.workers.meeting import FINISHED, OPEN, Meeting, MeetingState
from compiler.plan import WorkerPlan
from compiler.step.sums.between import SCOPE as MAIL
from tfdeploy.runtime.cluster.roster import Changed, Crew
from tfdeploy.runtime.cluster.worker_group import LONGEST, PATIENT, SHORTEST, WorkerGroup
from tfdeploy.runtime.stop import ReleasableThread, alongside

LONG = 0.5
"""The seconds of a step after which it is looked after."""

LOOK_EVERY = 0.1
STOPPING = 2.0
"""The seconds that a step may take to end after a signal."""

LEAVING = 10.0
"""The seconds for which a worker that ends waits for what the others need of it."""


@frozen
class Standing:
    """Where a worker stands."""

    made: int = -1  # the steps that it has made, with those that were skipped; -1 if it has no weights
    step: int = 0
    examples: int = 0  # the examples of these steps


@define
class ReplicaGroup(WorkerGroup):
    """A worker's view of all workers, of which each has all weights."""

    # Opens a session for a graph on the same devices, or on those of this task alone.
    open_session: Callable[..., Any] = field(kw_only=True, repr=False)
    # When the step that is being made has begun (`time.monotonic()`); None if none is.
    began: float | None = None
    woken: bool = False
    step: int = 0
    owes: bool = False  # whether an average is due that this worker does not have yet (local)
    # The tasks that may train, if workers come and go; None if they do not.
    crew: Crew | None = field(default=None, repr=False)
    # Runs the ops that wait for other workers, from which a step can be released.
    _waiting: ReleasableThread = field(init=False, repr=False)

    @property
    def meeting(self) -> Meeting:
        """The ops on the state of the workers."""
        assert self.exchange.meeting is not None
        return self.exchange.meeting

    @property
    def pause(self) -> float:
        """The longest pause of those who meet, in seconds; a short one if workers come and go."""
        return PATIENT if self.crew is None else LONGEST

    @property
    def name(self) -> str | None:
        """None, because a step is one of all workers."""
        return None

    # --- the state ----------------------------------------------------------------------------------------

    def state(self) -> Any:
        """Return the state of the table as it is now."""
        return MeetingState.of(self.engine.repeated("state", lambda: self.meeting.state))

    def until(
        self, ready: Callable[[Any], bool], longest: float = LONGEST, patience: float = math.inf
    ) -> Any:
        """Wait until the state of the table meets a condition, as `WorkerGroup.until` does."""
        return super().until(ready, longest, patience)

    def of_members(self, numbers: Sequence[int]) -> list[int]:
        """Return those of a vector of the table that belong to the workers of the generation."""
        return [numbers[slot] for slot in self.worker.slots]

    def raise_if_timed_out(self) -> None:
        """Raise the error of the monitor, if it has one; or `Changed`, if workers have come or gone."""
        super().raise_if_timed_out()
        if self.crew is not None and self.crew.is_stale():
            raise Changed

    def is_current(self, state: Any) -> bool:
        """Whether steps of the generation in which the worker trains are made."""
        return bool(state.phase == OPEN and state.generation == self.generation)

    def run(self, op: Any, *given: int) -> None:
        """Run an op on the state with at most four arguments; missing ones are 0."""
        self.engine.session.run(op, {self.meeting.given: (*given, 0, 0, 0, 0)[:4]})

    def counted(self) -> tuple[int, int]:
        """Return the global step, and the examples of all steps so far."""
        at = self.standing()
        return at.step, at.examples

    def standing(self) -> Standing:
        """Return where this worker stands."""
        try:
            made, examples, _, step = map(int, self.engine.session.run(self.meeting.own))
        except tf.errors.FailedPreconditionError:
            return Standing()
        return Standing(made, step, examples)

    def stand(self, at: Standing) -> None:
        """Set where this worker stands, and the number of the next step's messages.

        If workers come and go, steps are counted from the number of the generation on. So one that has missed
        a generation is behind those that have not, however many steps it has made that they have made anew.
        """
        made = at.made if self.crew is None else self.generation
        self.step = at.step
        self.owes = self.exchange.give is not None and at.made < self.standing_after(at.step).made
        self.run(self.meeting.set_own, made, at.examples, self.generation, at.step)

    def standing_after(self, step: int, examples: int = 0) -> Standing:
        """Return where a worker stands after a step, with the averages after this and all steps before.

        An average counts as something that was made (local): who lacks one is behind those that have it.
        """
        every = self.engine.compiled.plan.update.average_every
        return Standing(step + (0 if every is None else step // every), step, examples)

    # --- meeting ------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Say where this worker stands."""
        self.exchange.drain(self.engine.session.run)
        at = self.standing()
        if self.exchange.offer is not None and at.made >= 0:
            self.engine.session.run(self.exchange.offer)
        self.run(self.meeting.meet, self.generation, at.made, at.step, at.examples)

    def take(self, source: int, at: Standing) -> None:
        """Take the weights of a worker, which stands there, and stand there too.

        A worker that is there already keeps what it has: parts that no other has, or weights that it has
        trained itself. Nobody has trained anything before the first step.
        """
        behind = self.standing().made != at.made
        keeps = self.exchange.keeps_apart and self.is_even(self.state())
        keeps |= self.exchange.give is not None and not behind and at.made > 0
        if source != self.worker.index and not keeps:
            self.run(self.meeting.set_own, -1)  # until it has all of them
            self.engine.initialise()
            if behind:
                self.forget()
            copy_variables(self, source)
            self.engine.session.run(self.engine.compiled.after_restore_op)
        self.stand(at)

    def can_take(self, state: MeetingState) -> bool:
        """Whether the worker whose weights are to be taken has any, as far as this one knows."""
        return state.source != self.worker.index or self.standing().made >= 0

    # --- the chief's --------------------------------------------------------------------------------------

    def gather(self) -> tuple[int, Standing] | None:
        """Wait until all workers have said where they stand.

        Returns:
            The first of the workers that have made the most steps, and where it stands, as one that has no
            weights if what another worker alone had is lost; None if a signal comes first.
        """
        self.meet()
        found = self.until(lambda each: {*self.of_members(each.met)} == {self.generation}, self.pause)
        if found is None:
            return None
        source = max(range(self.worker.count), key=self.of_members(found.made).__getitem__)
        lost = self.exchange.keeps_apart and not self.is_even(found)
        return source, Standing() if lost else self.stands(found, source)

    def is_even(self, state: MeetingState) -> bool:
        """Whether all workers have said that they have made the same number of steps."""
        return len({*self.of_members(state.made)}) == 1

    def stands(self, state: MeetingState, worker: int) -> Standing:
        """Return where a worker has said that it stands."""
        slot = self.worker.slots[worker]
        return Standing(state.made[slot], state.step[slot], state.examples[slot])

    def hand_out(self, source: int, at: Standing) -> None:
        """Let all workers take the weights of a worker, which stands there, and wait until they have them."""
        self.exchange.drain(self.engine.session.run)
        if source == self.worker.index:
            self.run(self.meeting.meet, self.generation, at.made, at.step, at.examples)
        self.take(source, at)
        self.run(self.meeting.take, source)
        self.run(self.meeting.ready, self.generation)
        self.until(lambda each: {*self.of_members(each.ready)} == {self.generation}, self.pause)

    def begin(self) -> None:
        """Begin a generation, and give the variables their first values, unless they have later ones."""
        self.announce()
        if self.standing().made < 0:
            self.start_anew()

    def start_anew(self) -> None:
        """Give the variables of this worker their first values."""
        self.engine.initialise()
        self.forget()

    def forget(self) -> None:
        """Forget what this worker has not sent of its gradients: it is of steps that are not its own."""
        if self.exchange.forget is not None:
            self.engine.session.run(self.exchange.forget)

    def settle(self) -> None:
        """Wait until all others have applied the last step, if something that a step changes is theirs.

        Also after a signal: all have what they need for it, and only then does a checkpoint fit together.
        """
        settled = self.exchange.settled
        if settled is not None:
            made = self.standing().made
            while min(self.engine.session.run(settled)) < made:
                self.raise_if_timed_out()
                time.sleep(SHORTEST)

    def announce(self) -> None:
        """Begin a new generation: all others stop, and say where they stand."""
        roster = self.crew.roster if self.crew is not None else None
        self.generation = time.time_ns() if roster is None else roster.number
        self.run(self.meeting.announce, self.generation)

    def open(self, step: int, examples: int) -> None:
        """Let steps be made; the workers know from which step on."""
        del step, examples
        self.run(self.meeting.open)

    def end(self, patience: float) -> None:
        """End the training, and wait up to `patience` seconds until the others have noticed it."""
        self.run(self.meeting.end)
        if self.crew is not None:
            self.crew.end()
        until = time.monotonic() + patience
        while time.monotonic() < until and sum(self.state().left) < self.worker.count - 1:
            time.sleep(LOOK_EVERY)

    # --- steps --------------------------------------------------------------------------------------------

    def collect(self, *, traced: bool = False) -> bool:
        """Make the first part of a step: gradients, and their sum over all workers.

        Returns:
            Whether the sum is there. It is not if a signal has come while a worker was missing.

        Raises:
            tf.errors.OpError: If the step has broken.
            RunError: If a worker is missing for too long.
        """
        exchange, self.engine.restored = self.exchange, False
        fetches = [exchange.post, *exchange.sends]
        return self._with_all("collect", fetches, lambda: self._has(exchange.staged), traced=traced)

    def applied(self) -> None:
        """Note that this worker has applied a step, and take part in what the workers share after it."""
        self.step += 1
        every = self.engine.compiled.plan.update.average_every
        self.owes = every is not None and self.step % every == 0
        self.share()

    def share(self) -> None:
        """Take the parts of weights that all workers have updated, if each updates its own.

        If each trains weights of its own, take part in the average, if one is due.

        Raises:
            tf.errors.OpError: If they do not come, also because of a signal.
        """
        exchange = self.exchange
        if exchange.share is None or (exchange.give is not None and not self.owes):
            return
        ops = [exchange.share, *exchange.share_sends]
        if not self._with_all("share", ops, lambda: self._has(exchange.shared)):
            raise tf.errors.AbortedError(None, None, "the others have ended before a step was complete")
        if exchange.give is not None:
            self.engine.repeated("give", lambda: exchange.give)
            self.owes = False

    def _with_all(
        self,
        key: str,
        ops: Sequence[Any],
        is_done: Callable[[], bool] = lambda: False,
        *,
        traced: bool = False,
    ) -> bool:
        """Run ops that wait for the other workers, as `collect` does."""
        self.woken, self.began = False, time.monotonic()
        try:
            self._waiting.run(lambda: self.engine.repeated(key, lambda: ops, traced=traced))
        except tf.errors.OpError as fault:
            if is_done():
                return True  # a worker was lost after it had sent its part
            self.raise_if_timed_out()
            if self._is_stopping():
                return False
            if self.woken or _is_late(fault):
                raise tf.errors.AbortedError(
                    None, None, "the other workers have not made the step"
                ) from fault
            raise
        finally:
            self.began = None
        return True

    def _has(self, staged: Any) -> bool:
        """Whether all that a run was to keep is there."""
        with suppress(tf.errors.OpError, RuntimeError):
            return staged is not None and int(np.min(self.engine.session.run(staged))) > 0
        return False

    def outlast(self) -> None:
        """Wait a while until the chief has ended, if its last checkpoint may need this process."""
        needed = self.exchange.is_lender and self.engine.lost is not None
        end = time.monotonic() + (LEAVING if needed else 0.0)
        with suppress(tf.errors.OpError):
            while time.monotonic() < end and not self._is_gone() and self.state().phase != FINISHED:
                time.sleep(LOOK_EVERY)

    def _is_gone(self) -> bool:
        """Whether a task has ended, and does not only answer late."""
        return any(each.kind != "silent" for each in self.engine.monitor.absent)

    def _is_stopping(self) -> bool:
        return self.stop.received is not None or self.stop.arrived is not None

    @contextmanager
    def looked_after(self) -> Iterator[None]:
        """Look after steps during a block."""
        with (
            ReleasableThread("waiting") as self._waiting,
            alongside(self._look, "steps"),
            alongside(self._look_ahead, "next"),
        ):
            yield

    def _look_ahead(self, over: threading.Event) -> None:
        """Prepare for the next workers, if they come and go."""
        while self.crew is not None and not over.wait(LOOK_EVERY):
            self.crew.prepare_next()

    def _look(self, over: threading.Event) -> None:
        while not over.wait(LOOK_EVERY):
            began = self.began
            if began is None or time.monotonic() - began < (LONG if self.crew is None else LOOK_EVERY):
                continue
            if self._cannot_end(time.monotonic() - began):
                self.woken = True
                with suppress(tf.errors.OpError, RuntimeError):
                    inbox = self.exchange.inbox
                    assert inbox is not None
                    self.engine.session.run(inbox.wake)
                over.wait(LONG)
                if self.began == began and self._is_stopping() and self.crew is None and self._has_all:
                    # A server that is stopped does not end its part of the step. What a checkpoint needs does
                    # not wait for that, while to close the session would.
                    silent = tf.errors.AbortedError(None, None, "another worker does not answer")
                    self._waiting.release(silent)

    @property
    def _has_all(self) -> bool:
        """Whether a checkpoint needs nothing of other workers."""
        exchange = self.exchange
        others = exchange.share is not None or exchange.settled is not None or exchange.keeps_apart
        return not others

    @property
    def is_alone(self) -> bool:
        """Whether workers are missing, and this one has all that a checkpoint needs."""
        if self.crew is not None:
            return self._has_all and self.crew.are_too_few
        lost = self.engine.lost  # asks the tasks, unless the workers are threads of this process
        return self._has_all and lost is not None and lost()

    def _cannot_end(self, taken: float) -> bool:
        """Whether the step that is being made can no longer end.

        It can if a worker only does not answer: its process is stopped, or its machine is busy.
        """
        monitor = self.engine.monitor
        if self.crew is not None and self.crew.is_stale():
            return True
        if monitor.timed_out is not None or self._is_gone() or (self._is_stopping() and taken > STOPPING):
            return True
        try:
            state = self.state()
        except (tf.errors.OpError, RuntimeError):
            return True
        return not self.is_current(state) or state.lost == self.generation


def _is_late(fault: tf.errors.OpError) -> bool:
    """Whether a message of an earlier generation has come, from a worker that did not know of this one."""
    return isinstance(fault, tf.errors.InvalidArgumentError) and f"{{node {MAIL}/" in fault.message


def copy_variables(group: ReplicaGroup, source: int) -> None:
    """Give the variables of a worker the values that those of another one have, from server to server."""
    compiled = group.engine.compiled
    plan = compiled.plan
    assert isinstance(plan, WorkerPlan)
    devices = {
        plan.tensorflow_device(own): plan.tensorflow_device(there)
        for own, there in plan.devices_for(plan.worker.everyone[source][0].device.host).items()
    }
    graph = tf.Graph()
    with graph.as_default():
        apart = compiled.kept_apart
        copies = [
            _copied(each, devices)
            for name, saved in compiled.saved.items()
            for each in (variables_of(saved) if name not in apart else ())
        ]
    session = group.open_session(graph)
    try:
        for each in copies:  # one at a time, so that a worker never holds all of them twice
            session.run(each)
    finally:
        session.close()


def _copied(variable: Any, devices: dict[str, str]) -> tf.Operation:
    handle = variable.handle.op
    told = {name: handle.get_attr(name) for name in ("dtype", "shape", "shared_name")}
    with tf.device(devices[handle.device]):
        value = tf.raw_ops.ReadVariableOp(resource=tf.raw_ops.VarHandleOp(**told), dtype=told["dtype"])
    with tf.device(handle.device):
        return tf.raw_ops.AssignVariableOp(resource=tf.raw_ops.VarHandleOp(**told), value=value)
