"""The records of what was forecast and measured, kept in a file of lines, so that it can be done in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from pathlib import Path

from attrs import frozen

from dsl.files.typed_json import parse_record, to_json

QUIET = 0.1
"""The part of the machine below which the work of others does not matter. The clocks of the system tick a
hundred times in a second, so a smaller part of a tenth of a second cannot be told from none."""


@frozen
class Chunk:
    """Some steps without a pause.

    Attributes:
        seconds: The median seconds of a step.
        processor: The processor time of all processes of the layout for each step, in seconds.
        others: The part of the processors that other work had meanwhile, from 0 to 1.
    """

    seconds: float
    processor: float
    others: float


@frozen
class Compared:
    """A layout, forecast and measured.

    Attributes:
        model: The name of the model.
        family: The kind of the layout.
        case: The name of the layout.
        forecast: The forecast seconds of a step.
        known: The part of the time of the ops that is of ops in sizes that were measured.
        before: What was measured before the calibration.
        after: What was measured after it.
        during: What was measured between its turns.
        calibrated: What a step took in the calibration itself, in seconds; None if it was not of this layout.
    """

    model: str
    family: str
    case: str
    forecast: float
    known: float
    before: tuple[Chunk, ...]
    after: tuple[Chunk, ...]
    during: tuple[Chunk, ...] = ()
    calibrated: float | None = None

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """All that was measured."""
        return *self.before, *self.during, *self.after

    @property
    def measured(self) -> float:
        """The seconds of a step, measured while other work disturbed it least."""
        return typical(self.chunks)

    @property
    def error(self) -> float:
        """The relative error of the forecast: negative if the forecast is less than the measured time."""
        return self.forecast / self.measured - 1

    @property
    def noise(self) -> float:
        """How far the measurements before and after the calibration are apart, as a part of all."""
        return abs(typical(self.after) - typical(self.before)) / self.measured

    @property
    def drift(self) -> float | None:
        """How much longer a step took in the calibration than in the test, as a part of that.

        It is negative if it took less time, and None if another layout was calibrated.
        """
        return None if self.calibrated is None else self.calibrated / self.measured - 1

    @property
    def others(self) -> float:
        """The mean part of the processors that other work had, from 0 to 1."""
        return sum(each.others for each in self.chunks) / len(self.chunks)

    @property
    def line(self) -> str:
        """The layout in one line, to show progress."""
        processor = min(each.processor for each in self.chunks)
        return (
            f"{self.model}, {self.case}: {1e3 * self.forecast:.2f} ms, measured {1e3 * self.measured:.2f} ms "
            f"({self.error:+.1%}), processor time {1e3 * processor:.2f} ms, noise {self.noise:.1%}, "
            f"others {self.others:.0%}, known {self.known:.0%}"
        )


def typical(chunks: Sequence[Chunk]) -> float:
    """Return the lower quartile of the seconds of a step over the chunks that other work did not disturb.

    If other work disturbed all of them, it is the quartile of the half that was disturbed least.
    """
    ordered = sorted(chunks, key=lambda each: each.others)
    quiet = [each for each in ordered if each.others < QUIET]
    return quantile([each.seconds for each in quiet or ordered[: ceil(len(ordered) / 2)]], 0.25)


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
