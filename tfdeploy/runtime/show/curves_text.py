"""Curves in a terminal: eight dots to a character."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tfdeploy.runtime.show.curves import Curve, Frame

if TYPE_CHECKING:
    from collections.abc import Sequence

BLANK = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row from the top, and column
COLORS = (36, 33, 35, 32, 34, 31)  # of ANSI: cyan, yellow, magenta, green, blue, red
MARGIN = 11


def draw(curves: Sequence[Curve], title: str, *, width: int, height: int, color: bool) -> str:
    """Return `curves` as text of `width` columns and about `height` rows, with a legend below.

    Args:
        curves: The curves.
        title: The first line.
        width: The number of columns.
        height: The number of rows, without title and legend.
        color: Whether each curve has a colour of its own.
    """
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
    lines += [_legend(number, curve, color=color) for number, curve in enumerate(curves)]
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
    return f"\x1b[{COLORS[number % len(COLORS)]}m{text}\x1b[0m" if color else text


def _legend(number: int, curve: Curve, *, color: bool) -> str:
    step, value = curve.points[-1]
    mark = _painted(chr(BLANK + 0x36), number, color=color)
    return f"{' ' * MARGIN}{mark} {curve.label}: {value:.4g} at step {step:,}"
