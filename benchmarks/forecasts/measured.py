"""The records of what was forecast and measured, kept in a file of lines, so that it can be done in parts."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from pathlib import Path

from attrs import frozen

from benchmarks.forecasts.turn_effects import Chunk, Step
from dsl.files.typed_json import parse_record, to_json


@frozen
class Compared:
    """A layout, forecast and measured.

    Attributes:
        model: The name of the model.
        family: The kind of the layout.
        case: The name of the layout.
        forecast: The forecast seconds of a step.
        known: The part of the time of the ops that is of ops in sizes that were measured.
        turns: What was measured before the calibration, between its turns, and after it.
        step: What follows from it, and from what was measured of the other layouts in the same turns.
        calibrated: What a step took in the calibration itself, in seconds; None if it was not of this layout.
    """

    model: str
    family: str
    case: str
    forecast: float
    known: float
    turns: tuple[Chunk, ...]
    step: Step
    calibrated: float | None = None

    @property
    def measured(self) -> float:
        """The measured seconds of a step."""
        return self.step.seconds

    @property
    def error(self) -> float:
        """The relative error of the forecast: negative if the forecast is less than the measured time."""
        return self.forecast / self.measured - 1

    @property
    def noise(self) -> float:
        """How far repeated measurements are apart, as a part of the measured time."""
        return self.step.noise

    @property
    def drift(self) -> float | None:
        """How much longer a step took in the calibration than in the test, as a part of that.

        It is negative if it took less time, and None if another layout was calibrated.
        """
        return None if self.calibrated is None else self.calibrated / self.measured - 1

    @property
    def others(self) -> float:
        """The mean part of the processors that other work had, from 0 to 1."""
        return sum(each.others for each in self.turns) / len(self.turns)

    @property
    def line(self) -> str:
        """The layout in one line, to show progress."""
        processor = min(each.processor for each in self.turns)
        return (
            f"{self.model}, {self.case}: {1e3 * self.forecast:.2f} ms, measured {1e3 * self.measured:.2f} ms "
            f"({self.error:+.1%}), processor time {1e3 * processor:.2f} ms, noise {self.noise:.1%}, "
            f"others {self.others:.0%}, known {self.known:.0%}"
        )


def read_compared(path: Path) -> list[Compared]:
    """Return the layouts in a file, each by its last line. A line that was cut off is left out."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []
    found = [parse_record(line, Compared) for line in lines if line.endswith("\n")]
    return list({(each.model, each.case): each for each in found}.values())


def append_compared(path: Path, compared: Compared) -> None:
    """Add a layout to a file, as a line of JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cut = path.exists() and not path.read_bytes().endswith((b"\n",))
    if cut:
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole[: whole.rfind("\n") + 1], encoding="utf-8")
    with path.open("a", encoding="utf-8") as file:
        file.write(to_json(compared) + "\n")


def by_model(compared: list[Compared]) -> Iterator[tuple[str, list[Compared]]]:
    """Yield the layouts of each model."""
    for model in dict.fromkeys(each.model for each in compared):
        yield model, [each for each in compared if each.model == model]


def by_family(compared: list[Compared]) -> Iterator[tuple[str, list[Compared]]]:
    """Yield the layouts of each family."""
    for family in dict.fromkeys(each.family for each in compared):
        yield family, [each for each in compared if each.family == family]


def quantile(values: list[float], part: float) -> float:
    """Return the smallest value that at least `part` of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(part * len(ordered)) - 1)]


def kendall_tau(pairs: list[tuple[float, float]]) -> float:
    """Return Kendall's tau of pairs: 1 if both are in the same order, -1 if one is in the reverse order."""
    agreed = total = 0
    for at, (first, second) in enumerate(pairs):
        for other_first, other_second in pairs[:at]:
            sign = (first - other_first) * (second - other_second)
            agreed += (sign > 0) - (sign < 0)
            total += 1
    return agreed / total if total else 1.0
