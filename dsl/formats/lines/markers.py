"""The rows below a line of text: markers for spans within the line, and their texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from dsl.formats.lines.pieces import Mark, Piece

if TYPE_CHECKING:
    from collections.abc import Iterator


@frozen(eq=False)
class Place:
    """The place of a mark below a line.

    Attributes:
        mark: The mark.
        start: The first column.
        end: The column after the last one.
    """

    mark: Mark
    start: int
    end: int


def marker_rows(places: list[Place]) -> Iterator[list[Piece]]:
    """Yield the row of markers, with the text of the last one next to it, and a row for each other text."""
    if not places:
        return
    places = sorted(places, key=lambda each: (each.start, each.end))
    row: list[Piece] = []
    for each in sorted(places, key=lambda each: each.mark.primary):  # the primary marker covers the others
        _draw(row, each.start, each.mark.sign * (each.end - each.start), each.mark.style)
    last = places[-1]
    beside = all(each.end <= last.end for each in places)
    if beside and last.mark.text:
        _draw(row, last.end + 1, last.mark.text, last.mark.style)
    yield row
    hanging = [each for each in (places[:-1] if beside else places) if each.mark.text]
    if hanging:
        yield _bars(hanging)
    while hanging:
        each = hanging.pop()
        row = _bars([other for other in hanging if other.start < each.start])
        _draw(row, each.start, each.mark.text, each.mark.style)
        yield row


def _bars(places: list[Place]) -> list[Piece]:
    row: list[Piece] = []
    for each in places:
        _draw(row, each.start, "|", each.mark.style)
    return row


def _draw(row: list[Piece], column: int, text: str, style: str) -> None:
    """Write `text` into `row`, a list of single characters, at `column`."""
    row += [Piece(" ")] * (column - len(row))
    row[column : column + len(text)] = [Piece(character, style) for character in text]
