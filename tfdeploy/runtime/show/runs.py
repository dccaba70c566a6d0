"""Runs beside each other: curves of a score over steps, in a terminal or as an SVG picture, and tables.

There is a curve for each run and split; a table has a line for each run, or a column to compare a few.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from xml.sax.saxutils import escape

from attrs import frozen

from compiler.report import GENERATOR
from compiler.report.view import table, width_of
from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.regular import read_regular, system_reason
from dsl.formats.cells import printable
from dsl.ir import SPLITS
from tfdeploy.runtime.records.found import FoundRun, differing
from tfdeploy.runtime.records.history import HistoryRecord
from tfdeploy.runtime.show.reporting import number

MOST = 1e300
"""Scores beyond this are left out like infinite ones, because their differences would be infinite."""

SCORES = ("loss", "data_loss", "learning_rate", "examples_per_second")
"""The scores of a line of a history beside the metrics of the model."""


@frozen
class Curve:
    """A curve over the steps.

    Attributes:
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
    for index, curve in enumerate(curves):
        for x, y in _dots(curve, frame, columns * 2 - 1, rows * 4 - 1):
            place = (y // 4, x // 2)
            bits = cells.get(place, (0, index))[0]
            cells[place] = (bits | DOTS[y % 4][x % 2], index)
    lines = [title]
    for row in range(rows):
        value = frame.top - (frame.top - frame.bottom) * row / (rows - 1)
        label = f"{value:.4g}" if row in (0, rows // 2, rows - 1) else ""
        drawn = "".join(_cell(cells.get((row, column)), color=color) for column in range(columns))
        lines.append(f"{label:>{MARGIN - 2}} |{drawn}".rstrip())
    ends = f"{frame.left:,.0f}", f"{frame.right:,.0f}"
    lines.append(" " * MARGIN + ends[0] + ends[1].rjust(columns - len(ends[0])))
    lines += [_legend_line(index, curve, color=color) for index, curve in enumerate(curves)]
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
    bits, index = cell
    return _painted(chr(BLANK + bits), index, color=color)


def _painted(text: str, index: int, *, color: bool) -> str:
    return f"\x1b[{ANSI[index % len(ANSI)]}m{text}\x1b[0m" if color else text


def _legend_line(index: int, curve: Curve, *, color: bool) -> str:
    mark = _painted(chr(BLANK + 0x36), index, color=color)
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
    parts = [f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>']
    parts += [_tick(frame, index / (TICKS - 1)) for index in range(TICKS)]
    parts += [_curve(frame, curve, COLORS[at % len(COLORS)]) for at, curve in enumerate(curves)]
    parts += [_legend(at, curve) for at, curve in enumerate(curves)]
    return svg(WIDTH, height, parts)


def svg(width: int, height: int, parts: Sequence[str]) -> str:
    """Return the text of an SVG file with some parts on white."""
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {FONT}>',
        f"<!-- {GENERATOR} -->",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    return printable("\n".join([*head, *parts, "</svg>", ""]))


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


# --- tables of runs ---------------------------------------------------------------------------------------

NONE = "."
LARGE = 1e6
FIGURES = 2
"""The number of runs whose figures are also compared with each other."""


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return for each path its last parts, as many as tell it from the others."""
    found = {}
    for path in paths:
        parts = path.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        found[path] = next(
            end for end in ends if end == path or not any(p != path and p.endswith(f".{end}") for p in paths)
        )
    return found


def list_lines(runs: Sequence[FoundRun], width: int) -> list[str]:
    """Return a table with a line for each run, and as many of the settings that differ as fit."""
    scores = list(dict.fromkeys(name for each in runs for name in each.scores))
    heads = ["run", "state", "step", "split", *scores, "examples/s"]
    rows = [
        [
            each.directory, each.state, number(each.step), each.split or NONE,
            *(score(each.scores.get(name)) for name in scores), speed(each.examples_per_second),
        ]
        for each in runs
    ]  # fmt: skip
    settings, left = differing(runs), []
    names = short_names(list(settings))
    for path, values in settings.items():
        wider = [[*row, _setting(value)] for row, value in zip(rows, values, strict=True)]
        if width_of([[*heads, names[path]], *wider]) <= width:
            heads, rows = [*heads, names[path]], wider
        else:
            left.append(path)
    lines = table([heads, *rows], left=2)
    if left:
        said = f"also different, and shown by --compare: {', '.join(left)}"
        lines += ["", *textwrap.wrap(said, width, break_on_hyphens=False)]
    return lines


def compare_lines(runs: Sequence[FoundRun], width: int) -> list[str]:
    """Return what some runs have come to beside each other, and then the settings that differ."""
    scores = list(dict.fromkeys(name for each in runs for name in each.scores))
    facts: dict[str, list[str]] = {
        "state": [each.state for each in runs],
        "step": [number(each.step) for each in runs],
        "split": [each.split or NONE for each in runs],
    }
    for name in scores:
        values = [each.scores.get(name) for each in runs]
        facts[name] = [*map(score, values), *_change(values, "{1:+.4f}")]
    speeds = [each.examples_per_second for each in runs]
    facts["examples/s"] = [*map(speed, speeds), *_change(speeds, "x {0:.2f}")]
    settings = {path: [*map(_setting, values)] for path, values in differing(runs).items()}
    lines = list(_rows(facts, runs, width))
    if not settings:
        return [*lines, "", "their specs set the same"]
    return [*lines, "", "settings that differ", *_rows(settings, runs, width)]


def _change(values: Sequence[float | None], words: str) -> list[str]:
    """Return how the second of two values compares with the first, in a list that may be empty."""
    if len(values) != FIGURES or values[0] is None or values[1] is None:
        return []
    return [words.format(values[1] / values[0] if values[0] else 0.0, values[1] - values[0])]


def _rows(cells: Mapping[str, list[str]], runs: Sequence[FoundRun], width: int) -> Iterator[str]:
    """Yield a table with a column for each run; rows that are too wide come after it, a line for each run."""
    most = max(map(len, cells.values()))
    heads = ["", *(each.directory for each in runs)]
    heads += [""] * (most + 1 - len(heads))
    fitting, long = [heads], []
    for name, row in cells.items():
        padded = [name, *row, *[""] * (most - len(row))]
        if width_of([*fitting, padded]) <= width:
            fitting.append(padded)
        else:
            long.append((name, row))
    if len(fitting) > 1:
        yield from table(fitting)
    wide = max(len(each.directory) for each in runs)
    for name, row in long:
        yield name
        for run, cell in zip(runs, row, strict=False):
            lead = f"  {run.directory:<{wide}}  "
            yield from textwrap.wrap(
                cell, max(width, len(lead) + 20), initial_indent=lead, subsequent_indent=" " * len(lead),
                break_on_hyphens=False,
            )  # fmt: skip


def score(value: float | None) -> str:
    """Return a score as tables have it."""
    if value is None:
        return NONE
    return f"{value:.4f}" if abs(value) < LARGE else f"{value:.4g}"


def speed(value: float | None) -> str:
    """Return a number of examples in a second as tables have it."""
    return NONE if value is None else f"{number(round(value))}/s"


def _setting(value: str | None) -> str:
    return NONE if value is None else value
