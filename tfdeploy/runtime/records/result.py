"""What a run comes to: `result.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from attrs import define, field, frozen

from dsl import ir
from dsl.files.typed_json import DIGITS, Count, JsonRecord, Measured
from dsl.shown import Shown

Status = Literal["finished", "interrupted", "terminated"]
Goal = Literal["highest", "lowest"]

LOSS = "loss"
"""The name of the loss among the scores."""


def goal_and_score(best: ir.Call) -> tuple[Goal, str]:
    """Return what `best` of a spec says: which value is the best, and of which score."""
    score = best.args[0] if best.args else best.kwargs["score"]
    return "highest" if best.name == "highest" else "lowest", str(score)


MILLISECONDS = {DIGITS: 3}


@frozen
class Seconds:
    """The seconds that the parts of a run have taken.

    Attributes:
        compile: Building the graph.
        first_step: The first step; None if there was none.
        train: All other steps.
        evaluate: Evaluations.
        checkpoint: Writing checkpoints.
        data_waiting: The part of `train` in which steps waited for their examples; None if it is not known.
    """

    compile: float = field(metadata=MILLISECONDS)
    first_step: float | None = field(metadata=MILLISECONDS)
    train: float = field(metadata=MILLISECONDS)
    evaluate: float = field(default=0.0, metadata=MILLISECONDS)
    checkpoint: float = field(default=0.0, metadata=MILLISECONDS)
    data_waiting: float | None = field(default=None, metadata=MILLISECONDS)


@frozen
class Scores:
    """The scores of an evaluation.

    Attributes:
        loss: The loss with regularisation.
        data_loss: The loss without regularisation, as a mean over the examples.
        metrics: The values of the metrics by name.
        examples: The number of examples.
        seconds: The seconds that the evaluation has taken.
        empty: The names of scores for which no example counts: all are masked, or have no weight.
    """

    loss: float
    data_loss: float
    metrics: Mapping[str, float]
    examples: int
    seconds: float = field(eq=False)
    empty: frozenset[str] = frozenset()

    def without_value(self, name: str) -> str | None:
        """Return why a score, `loss` or a metric, has no value to compare; None if it has one."""
        if name.partition("[")[0] in self.empty:
            return f"no example counts for `{name}`"
        value = self.loss if name == LOSS else self.metrics.get(name, math.nan)
        return None if math.isfinite(value) else f"`{name}` is {value}"


@frozen
class SplitResult:
    """Scores over all examples of a split, with the averaged weights if the spec sets `ema`.

    Attributes:
        loss: The loss with regularisation.
        metrics: The values of the metrics by name.
        examples: The number of examples.
    """

    loss: Measured
    metrics: Mapping[str, Measured]
    examples: Count

    @classmethod
    def of(cls, scores: Scores) -> SplitResult:
        """Return the result of an evaluation."""
        return cls(scores.loss, dict(scores.metrics), scores.examples)


@frozen
class Best:
    """The best evaluation of a run.

    Attributes:
        step: The global step of the evaluation.
        goal: Whether the highest or the lowest value is the best.
        score: The name of the score: `loss`, or a metric.
        value: The value of the score.
    """

    step: Count
    goal: Goal
    score: str
    value: float


@frozen(kw_only=True)
class Result(Shown, JsonRecord):
    """The outcome of a run.

    Attributes:
        status: Whether the run has finished, or which signal has ended it.
        steps: The global step that was reached.
        loss: The loss with regularisation at the last logged step; None if no step was logged.
        metrics: The values of the metrics at that step, by name.
        test: The scores on the split `test`, at the step of `best` if there is one.
        validation: The same for the split `validation`.
        examples_per_second: The speed of the steps after the first one.
        seconds: The seconds that the parts of the run have taken.
        directory: The run directory.
        model: The path of the trained model, at the step of `best` if there is one; None if the run has not
            finished.
        resumed_from: The step of the checkpoint from which the run has continued; None for a new run.
        best: The best evaluation, if the spec asks for the best.
        stopped_early: Whether the run has ended because `patience` was exhausted.
    """

    status: Status
    steps: Count
    loss: float | None
    metrics: Mapping[str, Measured]
    test: SplitResult | None = None
    validation: SplitResult | None = None
    examples_per_second: float | None = field(metadata={DIGITS: 1})
    seconds: Seconds
    directory: str
    model: str | None = None
    resumed_from: Count | None = None
    best: Best | None = None
    stopped_early: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it is that of the whole run, and not of a worker that knows no more than the step."""
        return (self.loss, self.model) != (None, None) or self.status != "finished"


@frozen
class Evaluated(JsonRecord):
    """The scores of a checkpoint.

    Attributes:
        checkpoint: The path by which TensorFlow knows the checkpoint.
        step: Its global step.
        splits: The scores on each split, by name.
    """

    checkpoint: str
    step: int
    splits: Mapping[str, SplitResult]


@define
class Clock:
    """Adds up the seconds and the examples of a run.

    Attributes:
        first_step: Seconds of the first step; None if there was none.
        examples: The number of examples in the steps that `train` counts.
        data_waiting: The seconds of `train` in which steps waited for their examples; None if it is not
            known.
    """

    compile: float = 0.0
    first_step: float | None = None
    train: float = 0.0
    evaluate: float = 0.0
    checkpoint: float = 0.0
    examples: int = field(default=0)
    data_waiting: float | None = None

    def took(self, examples: int, seconds: float, waited: float | None = None) -> None:
        """Add the time of a step after the first one."""
        self.examples += examples
        self.train += seconds
        if waited is not None:
            self.data_waiting = (self.data_waiting or 0.0) + waited

    def seconds(self) -> Seconds:
        """Return the sums."""
        waited = None if self.data_waiting is None else min(self.data_waiting, self.train)
        return Seconds(self.compile, self.first_step, self.train, self.evaluate, self.checkpoint, waited)

    @property
    def waiting(self) -> float | None:
        """The share of the training time in which steps waited for data; None if it is not known."""
        if self.data_waiting is None or self.train <= 0:
            return None
        return min(self.data_waiting / self.train, 1.0)

    @property
    def examples_per_second(self) -> float | None:
        """The speed of the steps after the first one; None if there is none."""
        return self.examples / self.train if self.train > 0 else None
