"""Curves of runs: a score over steps, one for each run and split, in a terminal or as an SVG picture."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from attrs import frozen

from compiler.report import GENERATOR
from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.regular import read_regular, system_reason
from dsl.formats.cells import printable
from dsl.ir import SPLITS
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

    @property
    def words(self) -> str:
        """The label and the last point, for the legend."""
        step, value = self.points[-1]
        return f"{self.label}: {value:.4g} at step {step:,}"


@frozen
class Frame:
    """The range of several curves, which always has an extent."""

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
        for split in SPLITS:
            of_split = [line for line in lines if line.split == split]
            for worker in dict.fromkeys(line.worker for line in of_split):
                points = [
                    (line.step, line.figures().get(score, math.nan))
                    for line in of_split
                    if line.worker == worker
                ]
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


BLANK = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row from the top, and column
ANSI = (36, 33, 35, 32, 34, 31)  # cyan, yellow, magenta, green, blue, red
MARGIN = 11


def draw(curves: Sequence[Curve], title: str, *, width: int, height: int, color: bool) -> str:
    """Return `curves` as text of `width` columns and about `height` rows, with a legend below."""
    frame = Frame.around(curves)
    columns, rows = max(width - MARGIN, 10), max(height, 3)
    cells: dict[tuple[int, int], tuple[int, int]] = {}
    for number, curve in enumerate(curves):
        for x, y in _dots(curve, frame, columns * 2 - 1, rows * 4 - 1):
            place = (y // 4, x // 2)
            bits = cells.get(place, (0, number))[0]
            cells[place] = (bits | DOTS[y % 4][x % 2], number)
    lines = [title]
    for row in range(rows):
        value = frame.top - (frame.top - frame.bottom) * row / (rows - 1)
        label = f"{value:.4g}" if row in (0, rows // 2, rows - 1) else ""
        drawn = "".join(_cell(cells.get((row, column)), color=color) for column in range(columns))
        lines.append(f"{label:>{MARGIN - 2}} |{drawn}".rstrip())
    ends = f"{frame.left:,.0f}", f"{frame.right:,.0f}"
    lines.append(" " * MARGIN + ends[0] + ends[1].rjust(columns - len(ends[0])))
    lines += [_legend_line(number, curve, color=color) for number, curve in enumerate(curves)]
    return "\n".join(lines) + "\n"


def _dots(curve: Curve, frame: Frame, right: int, bottom: int) -> set[tuple[int, int]]:
    """Return the dots of a curve, its points joined by lines; rows count from the top."""
    places = [
        (round(frame.across(step) * right), round((1 - frame.up(value)) * bottom))
        for step, value in curve.points
    ]
    found = set(places)
    for (x0, y0), (x1, y1) in pairwise(places):
        count = max(abs(x1 - x0), abs(y1 - y0), 1)
        found |= {(x0 + (x1 - x0) * at // count, y0 + (y1 - y0) * at // count) for at in range(count)}
    return found


def _cell(cell: tuple[int, int] | None, *, color: bool) -> str:
    if cell is None:
        return " "
    bits, number = cell
    return _painted(chr(BLANK + bits), number, color=color)


def _painted(text: str, number: int, *, color: bool) -> str:
    return f"\x1b[{ANSI[number % len(ANSI)]}m{text}\x1b[0m" if color else text


def _legend_line(number: int, curve: Curve, *, color: bool) -> str:
    mark = _painted(chr(BLANK + 0x36), number, color=color)
    return f"{' ' * MARGIN}{mark} {curve.words}"


WIDTH, HEIGHT = 800, 450
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 40, 50
COLORS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#d55e00",
    "#56b4e9",
)  # told apart without colour vision
FONT = 'font-family="sans-serif" font-size="13"'
TICKS = 5
LINE = 20


def picture(curves: Sequence[Curve], title: str) -> str:
    """Return the text of an SVG file with `curves`, axes and a legend."""
    frame = Frame.around(curves)
    height = HEIGHT + LINE * len(curves)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f"<!-- {GENERATOR} -->",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>',
    ]
    parts += [_tick(frame, number / (TICKS - 1)) for number in range(TICKS)]
    parts += [_curve(frame, curve, COLORS[at % len(COLORS)]) for at, curve in enumerate(curves)]
    parts += [_legend(at, curve) for at, curve in enumerate(curves)]
    return printable("\n".join([*parts, "</svg>", ""]))


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _tick(frame: Frame, share: float) -> str:
    step = frame.left + share * (frame.right - frame.left)
    value = frame.bottom + share * (frame.top - frame.bottom)
    x, y = _x(share), _y(share)
    return (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>'
        f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{step:,.0f}</text>'
    )


def _curve(frame: Frame, curve: Curve, color: str) -> str:
    places = [(_x(frame.across(step)), _y(frame.up(value))) for step, value in curve.points]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    x, y = places[-1]
    return (
        f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>'
    )


def _legend(at: int, curve: Curve) -> str:
    y = HEIGHT + LINE * at
    said, color = escape(curve.words), COLORS[at % len(COLORS)]
    return (
        f'<rect x="{LEFT}" y="{y - 9}" width="18" height="4" fill="{color}"/>'
        f'<text x="{LEFT + 26}" y="{y}">{said}</text>'
    )
