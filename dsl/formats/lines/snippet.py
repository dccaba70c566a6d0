"""The lines of one source that a diagnostic points at, with markers below them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.formats.lines.cells import GAP, Cells, lay_out, window
from dsl.formats.lines.markers import Place, marker_rows
from dsl.formats.lines.pieces import Mark, Piece
from dsl.formats.lines.rails import Rails

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.source import Source

WHOLE = 5
"""The most lines of a range that is shown whole. Of a longer range, the first and the last line are shown."""

NEAR = 40
"""Markers within this many columns before the primary one are kept in sight if a line is cut."""


def snippet(source: Source, marks: list[Mark], gutter: int) -> Iterator[list[Piece]]:
    """Yield the rows that show marks in a source.

    Args:
        source: The source.
        marks: The marks.
        gutter: The width of the column of line numbers.
    """
    rails = Rails([each for each in marks if each.is_tall])
    previous = None
    for number in _numbers(source, marks):
        if previous is not None and number > previous + 1:
            yield [Piece(GAP.ljust(gutter + 3), "frame"), *rails.beside()]
        yield from _line(source, number, marks, rails, gutter)
        previous = number


def _numbers(source: Source, marks: list[Mark]) -> list[int]:
    shown: set[int] = set()
    for each in marks:
        whole = each.last - each.first < WHOLE
        shown.update(range(each.first, each.last + 1) if whole else (each.first, each.last))
    # A single line left out takes as much room as the dots that would stand for it.
    shown.update([number + 1 for number in shown if number + 2 in shown])
    return sorted(number for number in shown if number <= source.line_count)


def _line(source: Source, number: int, marks: list[Mark], rails: Rails, gutter: int) -> Iterator[list[Piece]]:
    text = source.line(number)
    here = [each for each in marks if each.first == number and not each.is_tall]
    lead = min(here, key=lambda each: (not each.primary, each.start), default=None)
    cells = lay_out(text, 0 if lead is None else lead.start)
    flat = [_place(each, cells) for each in here]
    opening = [each for each in rails.marks if each.first == number]
    closing = [each for each in rails.marks if each.last == number]
    left, right = window(len(cells.cells), *_reach(flat))
    shift = (len(GAP) if left or cells.first else 0) - left
    flush = [each for each in opening if not text[: each.start].strip()]
    shown = Piece(_cut(cells, left, right))
    yield [Piece(f"{number:>{gutter}} |", "frame"), Piece(" "), *rails.beside_text(flush), shown]
    head = [Piece(f"{'':{gutter}} |", "frame"), Piece(" ")]
    for row in marker_rows([_moved(each, shift, right + shift) for each in flat]):
        yield [*head, *rails.beside(), *row]
    for each in closing:
        column = max(cells.column(each.end) - 1, 0) + shift
        yield [*head, *rails.closing(each, min(max(column, 0), right + shift))]
    for each in opening:
        if each not in flush:
            column = cells.column(each.start) + shift
            yield [*head, *rails.opening(each, min(max(column, 0), right + shift))]


def _place(mark: Mark, cells: Cells) -> Place:
    start = cells.column(mark.start)
    return Place(mark, start, max(cells.column(mark.end), start + 1))


def _moved(place: Place, shift: int, limit: int) -> Place:
    """Return a place in a line that was cut, without the part that is not visible."""
    start = min(max(place.start + shift, 0), limit)
    return Place(place.mark, start, min(max(place.end + shift, start + 1), max(limit, start + 1)))


def _reach(places: list[Place]) -> tuple[int, int]:
    """Return the columns that must be visible: the primary marker and those shortly before it."""
    if not places:
        return 0, 0
    lead = [each for each in places if each.mark.primary] or places
    low = min(each.start for each in lead)
    near = [each.start for each in places if 0 <= low - each.start < NEAR]
    return min([low, *near]), max(each.end for each in places)


def _cut(cells: Cells, left: int, right: int) -> str:
    text = "".join(cells.cells[left:right])
    goes_on = right < len(cells.cells) or cells.is_cut
    return f"{GAP if left or cells.first else ''}{text}{GAP if goes_on else ''}".rstrip()
