"""Making steps: one after the other, or, if clones update each by itself, in a thread for each clone.

The caller takes finished steps one by one. Before it looks at the variables it lets the steps in hand end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from attrs import evolve, frozen

from dsl.diagnostics import RunError
from dsl.errors.running import running as errors
from tfdeploy.runtime.session.clone_threads import CloneThreads

if TYPE_CHECKING:
    from compiler.graph.compiled import TrainLoop
    from tfdeploy.runtime.session.engine import Engine, StepReport

MOST_SKIPPED = 40  # steps on end; each halves the scale of the loss, which starts from 2^15


@frozen
class StepResult:
    """A step that is done: its examples, its loss, and what it tells if that was asked for.

    If other workers count into the same global step, it may be `steps` of them together, or none yet.
    `waited` are the seconds of it without data (of several clones, the mean); None if that is not taken.
    """

    examples: int
    loss: float
    report: StepReport | None = None
    waited: float | None = None
    steps: int = 1


class Steps(Protocol):
    """Makes steps; `stride` is by how many the global step may move from one to the next."""

    stride: int

    def next(self, *, logged: bool, until: int) -> StepResult:
        """Return the next step that is done; `logged` asks for its report.

        No step is begun beyond number `until`, counted from where these steps started.
        """

    def settle(self) -> list[StepResult]:
        """Let the steps in hand end, and return them; no further one is begun before `next`."""

    def close(self) -> None:
        """Make no more steps."""


def make_steps(engine: Engine) -> Steps:
    """Return what makes the steps of a graph of all clones (for a worker with its own see `chief_steps`)."""
    if engine.compiled.train_loops:
        return AsyncSteps(engine)
    return SyncSteps(engine)


class SyncSteps:
    """A step is made when it is asked for; all clones take part in each."""

    stride = 1

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._examples = engine.compiled.plan.global_batch
        self._first = True

    def next(self, *, logged: bool, until: int) -> StepResult:
        """Make a step. The first is traced and tells about itself in any case.

        Under loss scaling a step may be skipped; then the next one takes its place, and the examples of both
        count. Raises RunError if there is no end to that.
        """
        del until
        done = self._once(logged=logged)
        examples, skipped, waited = done.examples, 0, done.waited
        while not self._engine.applied:
            skipped += 1
            if skipped == MOST_SKIPPED:
                spec = self._engine.compiled.plan.spec
                raise RunError(errors.gradients_not_finite(skipped, spec.update.span_of("precision")))
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

    def settle(self) -> list[StepResult]:
        """Return nothing: no step is ever in hand."""
        return []

    def close(self) -> None:
        """Do nothing: there are no threads."""


class AsyncSteps:
    """Every clone makes updates in a thread of its own, whatever the others do."""

    stride = 1

    def __init__(self, engine: Engine) -> None:
        compiled = engine.compiled
        self._threads = CloneThreads(
            compiled.train_loops,
            lambda loop, first: _update(engine, loop, first=first),
            compiled.plan.update.staleness,
        )

    def next(self, *, logged: bool, until: int) -> StepResult:
        """Wait for an update of any clone; each tells about itself."""
        del logged
        self._threads.allow(until)
        return self._threads.result()

    def settle(self) -> list[StepResult]:
        """Wait until no clone is at work; their threads wait too."""
        return self._threads.settle()

    def close(self) -> None:
        """Let the threads end."""
        self._threads.close()


def _update(engine: Engine, loop: TrainLoop, *, first: bool) -> StepResult:
    report = engine.loop_step(loop, traced=first)
    clones = len(engine.compiled.train_loops)  # which wait side by side
    return StepResult(
        loop.batch, report.loss, report, None if report.waited is None else report.waited / clones
    )
