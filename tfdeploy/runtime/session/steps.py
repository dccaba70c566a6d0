"""Makes steps: one after the other, or in a thread for each clone if clones update independently.

The caller takes finished steps one by one. Before it reads the variables it waits until no step is
running.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from attrs import evolve, frozen

from dsl.diagnostics import RunError
from dsl.errors import running as errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compiler.graph.compiled import TrainLoop
    from tfdeploy.runtime.session.engine import Engine, StepReport


T = TypeVar("T")


class CloneThreads(Generic[T]):
    """A thread for each clone that makes updates, as many in all as `allow` permits.

    A clone that would be too far ahead after its next update waits. The slowest clone never waits, so all
    updates end. If one raises an exception, no further one begins, and `result` raises the exception.

    Args:
        update: Makes one update of a clone; the second argument is whether it is the first one of the clone.
        staleness: The most updates by which a clone may be ahead of the slowest one; None for no bound.
    """

    def __init__(
        self,
        loops: Sequence[TrainLoop],
        update: Callable[[TrainLoop, bool], T],
        staleness: int | None = None,
    ) -> None:
        self.staleness = staleness
        self.begun, self.made = 0, [0] * len(loops)
        self._until, self._closed, self._taken = 0, False, 0
        self._changed = threading.Condition()
        self._update = update
        self._results: queue.Queue[T | BaseException] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._repeat, args=(loop,), name=f"clone {loop.clone}", daemon=True)
            for loop in loops
        ]
        for thread in self._threads:
            thread.start()

    def allow(self, until: int) -> None:
        """Permit updates up to number `until`, counted from the first one, to begin, and no further ones."""
        with self._changed:
            self._until = until
            self._changed.notify_all()

    def result(self) -> T:
        """Wait until an update ends, and return its result."""
        found = self._results.get()
        self._taken += 1
        if isinstance(found, BaseException):
            self.close()
            raise found
        return found

    def settle(self) -> list[T]:
        """Permit no further updates, wait for those that have begun, and return the remaining results."""
        self.allow(0)
        found = []
        while self._taken < self.begun:
            found.append(self.result())
        return found

    def close(self) -> None:
        """End the threads, and wait until no update is running."""
        self._end()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _end(self) -> None:
        """Let no update begin; threads that wait to begin one end."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _repeat(self, loop: TrainLoop) -> None:
        first = True
        while self._begins(loop.clone):
            try:
                given = self._update(loop, first)
            except BaseException as fault:  # noqa: BLE001  # handed to the thread that waits
                self._end()
                self._results.put(fault)
                return
            first = False
            self._results.put(given)  # before others may begin, so that results come in the order of updates
            with self._changed:
                self.made[loop.clone] += 1
                self._changed.notify_all()

    def _begins(self, clone: int) -> bool:
        """Wait until `clone` may begin an update; return False if there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._may_begin(clone))
            if self._closed:
                return False
            self.begun += 1
            return True

    def _may_begin(self, clone: int) -> bool:
        if self.begun >= self._until:
            return False
        return self.staleness is None or self.made[clone] + 1 - min(self.made) <= self.staleness


MOST_SKIPPED = 40  # steps in a row; each halves the scale of the loss, which starts from 2^15


@frozen
class StepResult:
    """A step that is done, or several steps of different workers together."""

    examples: int
    loss: float  # the loss without regularisation
    report: StepReport | None = None  # the report of the step, if it was asked for
    # The seconds in which the step has waited for data, as a mean over the clones; None if they are not
    # measured.
    waited: float | None = None
    # By how many the global step has moved. It may be 0 or more than 1 if other workers count into the same
    # global step.
    steps: int = 1
    applied: bool = True

    def made_after(self, skipped: StepResult) -> StepResult:
        """Return this step with the examples and the waits of the one that was skipped before it."""
        waited = self.waited
        if waited is not None:
            waited = None if skipped.waited is None else waited + skipped.waited
        return evolve(self, examples=self.examples + skipped.examples, waited=waited)


class Steps(ABC):
    """Makes steps.

    Attributes:
        stride: The most by which the global step may move in one call of `next`.
        can_repeat: Whether `next` makes a step again that has failed without a change.
    """

    stride = 1
    can_repeat = True

    @abstractmethod
    def next(self, *, logged: bool, until: int) -> StepResult:
        """Return the next step that is done."""

    def settle(self) -> list[StepResult]:
        """Wait for the steps that have begun, and return them. The next step begins when `next` is called."""
        return []

    def close(self) -> None:  # noqa: B027 many have nothing to end
        """Make no more steps."""


def make_steps(engine: Engine) -> Steps:
    """Return what makes the steps of a graph with all clones."""
    if engine.compiled.train_loops:
        return AsyncSteps(engine)
    return SyncSteps(engine)


class SyncSteps(Steps):
    """Makes a step, with all clones, whenever `next` is called."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._examples = engine.compiled.plan.global_batch
        self._first = True

    def next(self, *, logged: bool, until: int) -> StepResult:
        """Make a step. The first one is traced and always has a report.

        Under loss scaling a step may be skipped. Then another one is made, and the examples of both are
        counted.

        Args:
            until: Not used, because no step begins before it is asked for.

        Raises:
            RunError: If too many steps in a row are skipped.
        """
        del until
        done, skipped = self._once(logged=logged), 0
        while not done.applied:
            skipped += 1
            if skipped == MOST_SKIPPED:
                spec = self._engine.compiled.plan.spec
                raise RunError(errors.gradients_not_finite(spec.update.span_of("precision"), skipped=skipped))
            done = self._once(logged=logged).made_after(done)
        return done

    def _once(self, *, logged: bool) -> StepResult:
        logged = logged or self._first or self._engine.on_run_metadata is not None
        report = self._engine.step(logged=logged, traced=self._first)
        self._first = False
        return StepResult(
            self._examples, report.loss, report if logged else None, report.waited, applied=report.applied
        )


class AsyncSteps(CloneThreads[StepResult], Steps):
    """Every clone makes updates in a thread of its own, independently of the others."""

    can_repeat = False  # the threads have ended

    def __init__(self, engine: Engine) -> None:
        compiled = engine.compiled
        super().__init__(
            compiled.train_loops,
            lambda loop, first: _update(engine, loop, first=first),
            compiled.plan.update.staleness,
        )

    def next(self, *, logged: bool, until: int) -> StepResult:
        """Wait for an update of any clone; each has a report.

        Args:
            logged: Not used, because each update has a report.
            until: The number of the last step that may begin, counted from the first one that this object has
                made.
        """
        del logged
        self.allow(until)
        return self.result()


def _update(engine: Engine, loop: TrainLoop, *, first: bool) -> StepResult:
    report = engine.loop_step(loop, traced=first)
    clones = len(engine.compiled.train_loops)  # which wait side by side
    return StepResult(
        loop.batch, report.loss, report, None if report.waited is None else report.waited / clones
    )
