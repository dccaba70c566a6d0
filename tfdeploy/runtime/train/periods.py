"""When evaluations and checkpoints are due, and how many steps a run has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from attrs import define, field

from dsl.diagnostics import RunError, SpecError
from dsl.errors import plan as plan_errors
from dsl.errors import running as errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from compiler.plan import Plan
    from dsl import ir

SHORTEST_PAUSE = 5.0
SHARE = 0.02


@define
class Period:
    """Says when something is due that is done every so many steps, or every so many seconds.

    Attributes:
        steps: The number of steps; None if seconds count.
        seconds: The number of seconds; None if steps count. If both are None, it is never due.
        clock: Returns the present time in seconds.
    """

    steps: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _last: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._last = self.clock()

    @classmethod
    def of(cls, every: ir.Every | None) -> Period:
        """Return the period that a spec asks for; never, if it asks for none."""
        return cls() if every is None else cls(every.steps, every.seconds)

    def due(self, step: int) -> bool:
        """Whether it is due after `step`."""
        if self.steps is not None:
            return step % self.steps == 0
        return self.seconds is not None and self.clock() - self._last >= self.seconds

    def next_after(self, step: int) -> int | None:
        """Return the first step after `step` at which this is due; None if seconds count."""
        return None if self.steps is None else (step // self.steps + 1) * self.steps

    def done(self, spent: float = 0.0) -> None:  # noqa: ARG002 for a period that adapts
        """Count the seconds from now; `spent` is how long what was due has taken."""
        self._last = self.clock()


@define
class AdaptivePeriod(Period):
    """The period if a spec gives none: every 5 seconds, or less often if that took over 2 % of the time.

    Attributes:
        steps: None, because seconds count.
        seconds: The number of seconds, which `took` adapts; at least 5.
        clock: Returns the present time in seconds.
    """

    seconds: float | None = SHORTEST_PAUSE

    def done(self, spent: float = 0.0) -> None:
        """Count the seconds from now, and adapt the period to those that were spent."""
        super().done()
        self.seconds = max(SHORTEST_PAUSE, spent / SHARE)


def total_steps(plan: Plan, size: int | None, step: int = 0, examples: int = 0) -> int:
    """Return the global step at which training ends.

    Epochs are counted by the examples that were consumed, because an earlier part of the run may have had
    another number of clones. A last batch that the epochs do not fill is left out.

    Args:
        plan: The plan of the spec.
        size: The number of examples of an epoch; None if it is not known.
        step: The global step reached so far.
        examples: The number of examples consumed so far.

    Raises:
        SpecError: If the spec gives neither steps nor epochs.
        RunError: If the epochs have no known size, or too few examples for a step.
    """
    spec, train = plan.spec, plan.spec.train
    if train.steps is not None:
        return train.steps
    if train.epochs is None:
        raise SpecError(
            [plan_errors.nothing_to_train_on(train.span, missing="`steps` or `epochs` in `train`")]
        )
    span = train.span_of("epochs")
    if size is None:
        raise RunError(errors.size_unknown(span))
    concurrent = plan.concurrent_steps
    steps = step + max(0, train.epochs * size - examples) * concurrent // plan.global_batch
    if steps == 0:
        data = spec.data.train if spec.data is not None else None
        source = data.source.span if data is not None else None
        batch = plan.global_batch // concurrent
        raise RunError(
            errors.too_few_examples(
                source, size=train.epochs * size, batch=batch, batch_span=spec.clones.span
            )
        )
    return steps


def left_out(plan: Plan, size: int | None, examples: int = 0) -> int:
    """Return the number of examples of the last epoch that do not fill a step.

    Args:
        plan: The plan.
        size: The number of examples of an epoch; None if it is not known, in which case it is 0.
        examples: The number of examples that earlier parts of the run have consumed.
    """
    train, concurrent = plan.spec.train, plan.concurrent_steps
    if train.steps is not None or train.epochs is None or size is None:
        return 0
    return max(0, train.epochs * size - examples) * concurrent % plan.global_batch // concurrent
