"""Makes steps: one after the other, or in a thread for each clone if clones update independently.

The caller takes finished steps one by one. Before it reads the variables it waits until no step is running.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from tfdeploy.runtime.session.clone_threads import CloneThreads

if TYPE_CHECKING:
    from compiler.graph.compiled import TrainLoop
    from tfdeploy.runtime.session.engine import Engine, StepReport

MOST_SKIPPED = 40  # steps in a row; each halves the scale of the loss, which starts from 2^15


@frozen
class StepResult:
    """A step that is done, or several steps of different workers together.

    Attributes:
        examples: The number of examples.
        loss: The loss without regularisation.
        report: The report of the step, if it was asked for.
        waited: The seconds in which the step has waited for data, as a mean over the clones; None if they are
            not measured.
        steps: By how many the global step has moved. It may be 0 or more than 1 if other workers count into
            the same global step.
    """

    examples: int
    loss: float
    report: StepReport | None = None
    waited: float | None = None
    steps: int = 1


class Steps(ABC):
    """Makes steps; `stride` is the most by which the global step may move in one call of `next`."""

    stride = 1

    @abstractmethod
    def next(self, *, logged: bool, until: int) -> StepResult:
        """Return the next step that is done.

        Args:
            logged: Whether the report of the step is needed.
            until: The number of the last step that may begin, counted from the first one that this object has
                made.
        """

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
            logged: Whether the report of the step is needed.
            until: Not used, because no step begins before it is asked for.

        Raises:
            RunError: If too many steps in a row are skipped.
        """
        del until
        done = self._once(logged=logged)
        examples, skipped, waited = done.examples, 0, done.waited
        while not self._engine.applied:
            skipped += 1
            if skipped == MOST_SKIPPED:
                spec = self._engine.compiled.plan.spec
                raise RunError(errors.gradients_not_finite(spec.update.span_of("precision"), skipped=skipped))
            done = self._once(logged=logged)
            examples += done.examples
            waited = None if waited is None or done.waited is None else waited + done.waited
        return evolve(done, examples=examples, waited=waited)

    def _once(self, *, logged: bool) -> StepResult:
        if not (logged or self._first or self._engine.on_run_metadata is not None):
            loss = self._engine.step()
            return StepResult(self._examples, loss, waited=self._engine.waited)
        report = self._engine.logged_step(traced=self._first)
        self._first = False
        return StepResult(self._examples, report.loss, report, report.waited)


class AsyncSteps(CloneThreads[StepResult], Steps):
    """Every clone makes updates in a thread of its own, independently of the others."""

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
