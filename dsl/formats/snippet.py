"""The lines of one source that a diagnostic points at, with markers under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve, frozen

from dsl.formats.cells import GAP, Cells, lay_out, visible, window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.source import Source, Span

WHOLE = 5
"""A stretch of up to this many lines is shown whole; of a longer one, the first and the last line."""


@frozen
class Piece:
    """Characters in one style: `primary`, `secondary`, `frame` (numbers and bars), `gap`, or none."""

    text: str
    style: str = ""


@frozen
class Mark:
    """A span to be marked, with places in lines and columns (from 0 within the line), and its text."""

    first: int
    start: int
    last: int
    end: int
    text: str
    primary: bool

    @property
    def style(self) -> str:
        """The style of its marker and text."""
        return "primary" if self.primary else "secondary"

    @property
    def sign(self) -> str:
        """The character that its marker is made of."""
        return "^" if self.primary else "-"


def mark(span: Span, text: str, *, primary: bool) -> Mark:
    """Make the mark of `span`; a last line of which nothing is taken is left out."""
    begin, finish = span.begin, span.finish
    last, end = finish.line, finish.column - 1
    if end == 0 and last > begin.line:
        last -= 1
        end = len(span.source.line(last))
    return Mark(begin.line, begin.column - 1, last, end, visible(text), primary)


def snippet(source: Source, marks: list[Mark], gutter: int) -> Iterator[list[Piece]]:
    """Yield the rows that show `marks` in `source`, line numbers right-aligned in `gutter` columns."""
    tall = sorted(
        (each for each in marks if each.last > each.first), key=lambda each: (each.first, -each.last)
    )
    previous = None
    for number in _numbers(source, marks):
        if previous is not None and number > previous + 1:
            yield [
                Piece(GAP, "gap"),
                Piece(" " * (gutter + 3 - len(GAP))),
                *_rails(tall, previous, after=True),
            ]
        yield from _line(source, number, marks, tall, gutter)
        previous = number


def _numbers(source: Source, marks: list[Mark]) -> list[int]:
    shown: set[int] = set()
    for each in marks:
        whole = each.last - each.first < WHOLE
        shown.update(range(each.first, each.last + 1) if whole else (each.first, each.last))
    # A single line left out takes as much room as the dots that would stand for it.
    shown.update([number + 1 for number in shown if number + 2 in shown and number + 1 not in shown])
    return sorted(number for number in shown if number <= source.line_count)


def _line(
    source: Source, number: int, marks: list[Mark], tall: list[Mark], gutter: int
) -> Iterator[list[Piece]]:
    cells = lay_out(source.line(number))
    here = [_placed(each, number, cells) for each in marks if number in (each.first, each.last)]
    left, right = window(len(cells.cells), *_reach(here))
    flush = [each for each in tall if each.first == number and not source.line(number)[: each.start].strip()]
    yield [
        Piece(f"{number:>{gutter}} |", "frame"),
        Piece(" "),
        *_rails(tall, number, flush=flush),
        Piece(_cut(cells, left, right)),
    ]
    head = [Piece(f"{'':{gutter}} |", "frame"), Piece(" ")]
    shift = (len(GAP) if left else 0) - left
    moved = [evolve(each, start=max(0, each.start + shift), end=max(1, each.end + shift)) for each in here]
    flat = [each for each in moved if each.first == each.last]
    for row in _flat_rows([_clipped(each, right + shift) for each in flat]):
        yield [*head, *_rails(tall, number, flush=flush, marking=True), *row]
    for original, each in zip(here, moved, strict=True):
        if each.first == each.last:
            continue
        source_mark = next(one for one in tall if _same(one, original))
        if source_mark in flush and number == each.first:
            continue
        yield [*head, *_turn(tall, source_mark, each, number)]


def _placed(each: Mark, number: int, cells: Cells) -> Mark:
    """Return `each` with its code points turned into cell columns where they lie in line `number`."""
    start = cells.column(each.start) if number == each.first else each.start
    end = cells.column(each.end) if number == each.last else each.end
    if each.first == each.last:
        end = max(end, start + 1)
    return evolve(each, start=start, end=end)


def _same(one: Mark, placed: Mark) -> bool:
    return (one.first, one.last, one.text, one.primary) == (
        placed.first,
        placed.last,
        placed.text,
        placed.primary,
    )


def _reach(here: list[Mark]) -> tuple[int, int]:
    if not here:
        return 0, 0
    flat = [each for each in here if each.first == each.last] or here
    lead = [each for each in flat if each.primary] or flat
    low = min(each.start for each in lead)
    near = [each.start for each in flat if low - each.start < 40]  # noqa: PLR2004 a third of the width
    return min([low, *near]), max(each.end for each in flat)


def _cut(cells: Cells, left: int, right: int) -> str:
    text = "".join(cells.cells[left:right])
    return f"{GAP if left else ''}{text}{GAP if right < len(cells.cells) else ''}".rstrip()


def _clipped(each: Mark, limit: int) -> Mark:
    end = min(each.end, max(limit, each.start + 1))
    return evolve(each, end=end)


def _rails(
    tall: list[Mark],
    number: int,
    *,
    flush: Sequence[Mark] = (),
    after: bool = False,
    marking: bool = False,
) -> list[Piece]:
    """Return the bars at the left of a row that lie beside line `number`, or just below it."""
    if not tall:
        return []
    rails = []
    for each in tall:
        if each in flush and not marking:
            rails.append(Piece("/", each.style))
            continue
        begun = each.first < number or (each.first == number and (after or each in flush))
        going = each.last >= number and not (after and each.last == number)
        rails.append(Piece("|", each.style) if begun and going else Piece(" "))
    return [*rails, Piece(" ")]


def _turn(tall: list[Mark], mine: Mark, placed: Mark, number: int) -> list[Piece]:
    """Return the row on which the bar of `mine` starts or ends: underscores up to the marker."""
    rail = tall.index(mine)
    opening = number == mine.first
    column = placed.start if opening else max(placed.end - 1, 0)
    pieces = []
    for index, each in enumerate(tall[:rail]):
        begun = each.first < number or (each.first == number and index < rail and not opening)
        pieces.append(Piece("|", each.style) if begun and each.last >= number else Piece(" "))
    pieces.append(Piece(" " if opening else "|", mine.style))
    pieces.append(Piece("_" * (len(tall) - rail + column) + mine.sign, mine.style))
    if not opening and mine.text:
        pieces += [Piece(" "), Piece(mine.text, mine.style)]
    return pieces


def _flat_rows(marks: list[Mark]) -> Iterator[list[Piece]]:
    """Yield the marker row of one line, and below it the texts that do not fit beside their marker."""
    if not marks:
        return
    marks = sorted(marks, key=lambda each: (each.start, each.end))
    grid: list[Piece] = []
    for each in [*(one for one in marks if not one.primary), *(one for one in marks if one.primary)]:
        _draw(grid, each.start, each.sign * (each.end - each.start), each.style)
    last = marks[-1]
    beside = bool(last.text) and all(each.end <= last.end for each in marks)
    if beside:
        _draw(grid, last.end + 1, last.text, last.style)
    yield grid
    hanging = [each for each in (marks[:-1] if beside else marks) if each.text]
    if hanging:
        yield _bars(hanging)
    while hanging:
        each = hanging.pop()
        row = _bars([one for one in hanging if one.start < each.start])
        _draw(row, each.start, each.text, each.style)
        yield row


def _bars(marks: list[Mark]) -> list[Piece]:
    row: list[Piece] = []
    for each in marks:
        _draw(row, each.start, "|", each.style)
    return row


def _draw(row: list[Piece], column: int, text: str, style: str) -> None:
    """Write `text` into `row`, a list of single characters, at `column`."""
    row += [Piece(" ")] * (column - len(row))
    row[column : column + len(text)] = [Piece(character, style) for character in text]
