"""Curves of runs: a score over steps, one curve for each run and split."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from attrs import frozen

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.regular import read_regular, system_reason
from tfdeploy.runtime.records.history import HistoryRecord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOST = 1e300
"""Scores beyond this are left out like infinite ones, because their differences would be infinite."""

SCORES = ("loss", "data_loss", "learning_rate", "examples_per_second")
"""The scores of a line of a history beside the metrics of the model."""


@frozen
class Curve:
    """A curve over the steps.

    Attributes:
        label: The name in the legend.
        points: The step and the value of each point, in the order of the steps. Values that are not finite
            are left out.
    """

    label: str
    points: tuple[tuple[int, float], ...]


@frozen
class Frame:
    """The range of several curves, which always has an extent.

    Attributes:
        left: The lowest step.
        right: The highest step.
        bottom: The lowest value.
        top: The highest value.
    """

    left: float
    right: float
    bottom: float
    top: float

    @classmethod
    def around(cls, curves: Sequence[Curve]) -> Frame:
        """Return the frame that holds every point of `curves`, which have at least one."""
        steps = [step for curve in curves for step, _ in curve.points]
        values = [value for curve in curves for _, value in curve.points]
        return cls(*_apart(min(steps), max(steps)), *_apart(min(values), max(values)))

    def across(self, step: float) -> float:
        """Return how far right a step is, from 0 to 1."""
        return (step - self.left) / (self.right - self.left)

    def up(self, value: float) -> float:
        """Return how far up a value is, from 0 to 1."""
        return (value - self.bottom) / (self.top - self.bottom)


def _apart(low: float, high: float) -> tuple[float, float]:
    room = abs(low) / 10 or 1.0
    return (low, high) if high > low else (low - room, high + room)


def read_curves(runs: Sequence[Path], score: str) -> list[Curve]:
    """Read the curves of a score.

    Args:
        runs: Run directories, or files of a history.
        score: `loss`, `data_loss`, `learning_rate`, `examples_per_second`, the name of a metric, or
            `learning_rate/GLOB` for a group of weights.

    Returns:
        A curve for each run, split and worker that has the score.

    Raises:
        RunError: If a run has no history, or no run has the score.
    """
    curves: list[Curve] = []
    known: set[str] = set()
    for run in runs:
        lines = _read(run)
        known |= {name for line in lines for name in (*SCORES, *line.metrics, *line.rates_of_groups())}
        for split in ("train", "validation", "test"):
            of_split = [line for line in lines if line.split == split]
            for worker in dict.fromkeys(line.worker for line in of_split):
                points = [(line.step, _value(line, score)) for line in of_split if line.worker == worker]
                finite = tuple((step, value) for step, value in points if abs(value) < MOST)
                name = " ".join(each for each in (str(run) if len(runs) > 1 else "", split, worker) if each)
                if finite:
                    curves.append(Curve(name, finite))
    if not curves:
        raise RunError(errors.nothing_to_plot(score=score, known=sorted(known)))
    return curves


def history_of(run: Path) -> Path:
    """Return the history of a run directory; a file is a history itself."""
    return run / "history.jsonl" if run.is_dir() else run


def _read(run: Path) -> list[HistoryRecord]:
    path = history_of(run)
    try:
        texts = read_regular(path).splitlines()
    except OSError as fault:
        raise RunError(errors.no_history(path=str(path), reason=system_reason(fault))) from fault
    return [line for line in map(HistoryRecord.read, texts) if line is not None]


def _value(line: HistoryRecord, score: str) -> float:
    if score in SCORES:
        found = getattr(line, score)
        return math.nan if found is None else float(found)
    return {**line.metrics, **line.rates_of_groups()}.get(score, math.nan)
