"""What a run comes to: `result.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import define, field, frozen

from dsl.files.typed_json import DIGITS, Count, Measured, to_json

Status = Literal["finished", "interrupted", "terminated"]
Goal = Literal["highest", "lowest"]

MILLISECONDS = {DIGITS: 3}


@frozen
class Seconds:
    """How many seconds of a run went where. `train` is the steps alone, without the first one.

    `data_waiting` is the part of `train` in which the examples of a step were not there yet; None if that
    is not known.
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

    `loss` includes the regularisation, `data_loss` is the mean over examples.
    """

    loss: float
    data_loss: float
    metrics: Mapping[str, float]
    examples: int
    seconds: float = field(eq=False)


@frozen
class SplitResult:
    """Scores over all `examples` of a split, with the averaged weights if `ema` is set."""

    loss: Measured
    metrics: Mapping[str, Measured]
    examples: Count

    @classmethod
    def of(cls, scores: Scores) -> SplitResult:
        """Return the result of an evaluation."""
        return cls(scores.loss, dict(scores.metrics), scores.examples)


@frozen
class Best:
    """The best evaluation: its step and the value of the score; `goal` is `highest` or `lowest`."""

    step: Count
    goal: Goal
    score: str
    value: float


@frozen(kw_only=True)
class Result:
    """The outcome of a run.

    `steps` is the global step reached, `loss` (regularisation included) and `metrics` are those of the last
    logged step, None if there is none; `model` is the path of the trained model. If the spec asks for
    the best, `validation`, `test` and `model` are those of the step of `best`.
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

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the text of `result.json`, in one line unless `indent` is given."""
        return to_json(self, indent=indent)


@frozen
class Evaluated:
    """The scores of a checkpoint on splits, by their names."""

    checkpoint: str
    step: int
    splits: Mapping[str, SplitResult]

    def to_json(self) -> str:
        """Return one line of JSON."""
        return to_json(self)


@define
class Clock:
    """Seconds of a run, added up as they pass."""

    compile: float = 0.0
    first_step: float | None = None
    train: float = 0.0
    evaluate: float = 0.0
    checkpoint: float = 0.0
    examples: int = field(default=0)
    data_waiting: float | None = None

    def took(self, examples: int, seconds: float, waited: float | None = None) -> None:
        """Take down a step after the first, which has waited for its examples for a while."""
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
        """The part of the training time that was spent waiting for data; None if that is not known."""
        if self.data_waiting is None or self.train <= 0:
            return None
        return min(self.data_waiting / self.train, 1.0)

    @property
    def examples_per_second(self) -> float | None:
        """The speed of the steps after the first; None before there is any."""
        return self.examples / self.train if self.train > 0 else None
