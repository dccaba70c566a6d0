"""The records of what was forecast and measured, kept in a file of lines, so that it can be done in parts."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path
from statistics import median

from attrs import frozen

from dsl.files.typed_json import parse_record, to_json


@frozen
class Compared:
    """A layout, forecast and measured.

    Attributes:
        model: The name of the model.
        case: The name of the layout.
        forecast: The forecast seconds of a step.
        measured: The median seconds of a step in each of several processes.
        known: The part of the time of the ops that is of ops in sizes that were measured.
    """

    model: str
    case: str
    forecast: float
    measured: tuple[float, ...]
    known: float

    @property
    def middle(self) -> float:
        """The median over the processes."""
        return median(self.measured)

    @property
    def error(self) -> float:
        """How far the forecast is from what was measured, as a part of that; negative if it is less."""
        return self.forecast / self.middle - 1

    @property
    def noise(self) -> float:
        """How far the processes are from each other, as a part of their median."""
        return (max(self.measured) - min(self.measured)) / self.middle


def read_compared(path: Path) -> list[Compared]:
    """Return what a file has, the last line of each layout."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [parse_record(line, Compared) for line in lines]
    return list({(each.model, each.case): each for each in found}.values())


def append_compared(path: Path, compared: Compared) -> None:
    """Add a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(to_json(compared) + "\n")


def by_model(compared: list[Compared]) -> Iterator[tuple[str, list[Compared]]]:
    """Yield the layouts of each model."""
    for model in dict.fromkeys(each.model for each in compared):
        yield model, [each for each in compared if each.model == model]


def quantile(values: list[float], part: float) -> float:
    """Return the smallest value that at least `part` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(part * len(ordered)) - 1)]


def kendall_tau(pairs: list[tuple[float, float]]) -> float:
    """Return Kendall's tau of pairs: 1 if both orders are the same, -1 if one is the other reversed."""
    agreed = total = 0
    for at, (first, second) in enumerate(pairs):
        for other_first, other_second in pairs[:at]:
            sign = (first - other_first) * (second - other_second)
            agreed += (sign > 0) - (sign < 0)
            total += 1
    return agreed / total if total else 1.0
