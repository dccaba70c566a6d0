"""What a run comes to: `result.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from attrs import asdict, define, field, frozen

from dsl.files.typed_json import Count, Measured
from tfdeploy.runtime.records.history import finite

Status = Literal["finished", "interrupted", "terminated"]
Goal = Literal["highest", "lowest"]


@frozen
class Seconds:
    """How many seconds of a run went where. `train` is the steps alone, without the first one.

    `data_waiting` is the part of `train` in which the examples of a step were not there yet; None if that
    is not known.
    """

    compile: float
    first_step: float | None
    train: float
    evaluate: float = 0.0
    checkpoint: float = 0.0
    data_waiting: float | None = None


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


@frozen
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
    examples_per_second: float | None
    seconds: Seconds
    directory: str
    test: SplitResult | None = None
    validation: SplitResult | None = None
    model: str | None = None
    resumed_from: Count | None = None
    best: Best | None = None
    stopped_early: bool = False

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the text of `result.json`, one line without `indent`; what is not finite is null."""
        seconds = self.seconds
        fields: dict[str, Any] = {
            "status": self.status,
            "steps": self.steps,
            "loss": finite(self.loss),
            "metrics": _finite(self.metrics),
            "test": split_fields(self.test),
            "validation": split_fields(self.validation),
            "examples_per_second": finite(self.examples_per_second, digits=1),
            "seconds": {
                "compile": round(seconds.compile, 3),
                "first_step": finite(seconds.first_step, digits=3),
                "train": round(seconds.train, 3),
                "evaluate": round(seconds.evaluate, 3),
                "checkpoint": round(seconds.checkpoint, 3),
                "data_waiting": finite(seconds.data_waiting, digits=3),
            },
            "directory": self.directory,
            "model": self.model,
            "resumed_from": self.resumed_from,
            "best": None if self.best is None else asdict(self.best),
            "stopped_early": self.stopped_early,
        }
        return json.dumps(fields, indent=indent, allow_nan=False)


def _finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    return {name: finite(value) for name, value in metrics.items()}


def split_fields(found: SplitResult | None) -> dict[str, Any] | None:
    """Return scores as they stand in JSON."""
    if found is None:
        return None
    return {"loss": finite(found.loss), "metrics": _finite(found.metrics), "examples": found.examples}


@frozen
class Evaluated:
    """The scores of a checkpoint on splits, by their names."""

    checkpoint: str
    step: int
    splits: Mapping[str, SplitResult]

    def to_json(self) -> str:
        """Return one line of JSON."""
        found = {name: split_fields(scores) for name, scores in self.splits.items()}
        return json.dumps(
            {"checkpoint": self.checkpoint, "step": self.step, "splits": found}, allow_nan=False
        )


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
