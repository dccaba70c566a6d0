"""Renders diagnostics in any of the formats: for people with the lines of the source that they point at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

from dsl.diagnostics import MAX_SHOWN, Diagnostic
from dsl.formats.cells import GAP, Cells, lay_out, visible, window
from dsl.formats.programs import envelope, github, sarif
from dsl.source import Source, Span


@frozen
class Styled:
    """Text in a single style."""

    text: str
    style: str = ""


@frozen(eq=False)
class Mark:
    """A span that is marked."""

    first: int  # the line on which it starts
    start: int  # the index of its first code point in that line
    last: int  # the line on which it ends
    end: int  # the index after its last code point in that line
    text: str
    primary: bool  # whether it is the fault itself, and not a label

    @property
    def is_tall(self) -> bool:
        """Whether the span covers several lines."""
        return self.last > self.first

    @property
    def style(self) -> str:
        """The style of the marker and its text."""
        return "primary" if self.primary else "secondary"

    @property
    def sign(self) -> str:
        """The character of which the marker is made."""
        return "^" if self.primary else "-"


def mark(span: Span, text: str, *, primary: bool) -> Mark:
    """Make the mark of a span; a last line of which no character belongs to the span is left out."""
    begin, finish = span.begin, span.finish
    last, end = finish.line, finish.column - 1
    if end == 0 and last > begin.line:
        last -= 1
        end = len(span.source.line(last))
    return Mark(begin.line, begin.column - 1, last, end, visible(text), primary)


# --- marks within a line ----------------------------------------------------------------------------------


@frozen(eq=False)
class Place:
    """The place of a mark below a line."""

    mark: Mark
    start: int
    end: int


def marker_rows(places: list[Place]) -> Iterator[list[Styled]]:
    """Yield the row of markers, with the text of the last one next to it, and a row for each other text."""
    if not places:
        return
    places = sorted(places, key=lambda each: (each.start, each.end))
    row: list[Styled] = []
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


def _bars(places: list[Place]) -> list[Styled]:
    row: list[Styled] = []
    for each in places:
        _draw(row, each.start, "|", each.mark.style)
    return row


def _draw(row: list[Styled], column: int, text: str, style: str) -> None:
    """Write `text` into `row`, a list of single characters, at `column`."""
    row += [Styled(" ")] * (column - len(row))
    row[column : column + len(text)] = [Styled(character, style) for character in text]


# --- marks over several lines -----------------------------------------------------------------------------


@define
class Rails:
    """The state of the bars while the rows of a snippet are drawn from top to bottom.

    Each mark has a lane from its first line to its last; marks that do not overlap share a lane.
    """

    marks: Sequence[Mark]
    _lanes: list[list[Mark]] = field(factory=list, init=False)
    _active: dict[int, Mark] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for mark in sorted(self.marks, key=lambda each: (each.first, -each.last)):
            lane = next((lane for lane in self._lanes if lane[-1].last < mark.first), None)
            if lane is None:
                self._lanes.append([mark])
            else:
                lane.append(mark)

    @property
    def width(self) -> int:
        """The number of columns of the bars and the space after them."""
        return len(self._lanes) + 1 if self._lanes else 0

    def beside_text(self, starting: Sequence[Mark]) -> list[Styled]:
        """Return the bars of a row of text."""
        for mark in starting:
            self._active[self._lane(mark)] = mark
        return self._bars({self._lane(mark) for mark in starting})

    def beside(self) -> list[Styled]:
        """Return the bars of a row without text."""
        return self._bars(frozenset())

    def opening(self, mark: Mark, column: int) -> list[Styled]:
        """Return the row below a line of text on which a mark starts at a column."""
        row = self._turn(mark, column)
        self._active[self._lane(mark)] = mark
        return row

    def closing(self, mark: Mark, column: int) -> list[Styled]:
        """Return the row on which a mark ends at a column, with the text of the mark."""
        row = self._turn(mark, column)
        del self._active[self._lane(mark)]
        return [*row, Styled(" "), Styled(mark.text, mark.style)] if mark.text else row

    def _lane(self, mark: Mark) -> int:
        return next(at for at, lane in enumerate(self._lanes) if any(each is mark for each in lane))

    def _bars(self, starting: set[int] | frozenset[int]) -> list[Styled]:
        if not self._lanes:
            return []
        return [
            *(self._bar(lane, "/" if lane in starting else "|") for lane in range(len(self._lanes))),
            Styled(" "),
        ]

    def _bar(self, lane: int, sign: str) -> Styled:
        mark = self._active.get(lane)
        return Styled(" ") if mark is None else Styled(sign, mark.style)

    def _turn(self, mark: Mark, column: int) -> list[Styled]:
        lane = self._lane(mark)
        line = "_" * (len(self._lanes) - lane + column) + mark.sign
        return [*(self._bar(each, "|") for each in range(lane + 1)), Styled(line, mark.style)]


# --- rows of lines and marks ------------------------------------------------------------------------------

WHOLE = 5
"""The most lines of a range that is shown whole. Of a longer range, the first and the last line are shown."""

NEAR = 40
"""Markers within this many columns before the primary one are kept in sight if a line is cut."""


def snippet(source: Source, marks: list[Mark], gutter: int) -> Iterator[list[Styled]]:
    """Yield the rows that show marks in a source."""
    rails = Rails([each for each in marks if each.is_tall])
    previous = None
    for number in _numbers(source, marks):
        if previous is not None and number > previous + 1:
            yield [Styled(GAP.ljust(gutter + 3), "frame"), *rails.beside()]
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


def _line(
    source: Source, number: int, marks: list[Mark], rails: Rails, gutter: int
) -> Iterator[list[Styled]]:
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
    shown = Styled(_cut(cells, left, right))
    yield [Styled(f"{number:>{gutter}} |", "frame"), Styled(" "), *rails.beside_text(flush), shown]
    head = [Styled(f"{'':{gutter}} |", "frame"), Styled(" ")]
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


FORMATS = ("human", "concise", "json", "github", "sarif")


def render(diagnostics: Iterable[Diagnostic], format: str = "human", *, color: bool = False) -> str:  # noqa: A002
    """Return diagnostics as text.

    At most MAX_SHOWN are rendered; the human format ends with the number of all.

    Returns:
        The text. Without diagnostics it is empty, or an empty log for the formats that have one.
    """
    found = list(diagnostics)
    shown = found[:MAX_SHOWN]
    match format:
        case "human" if found:
            end = f"{summary(found)}\n{_where_more_is_told(shown)}\n"
            return "\n".join([*human(shown, color=color), end])
        case "human":
            return ""
        case "json":
            return envelope(found, shown)
        case "sarif":
            return sarif(shown)
    writers = {"concise": concise, "github": github}
    if format not in writers:
        raise ValueError(f"there is no format {format!r}")
    return "".join(f"{line}\n" for line in writers[format](shown))


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """Return a sentence with the numbers of errors and warnings, shown ones and fixable ones."""
    errors = sum(each.is_error for each in diagnostics)
    warnings = len(diagnostics) - errors
    counts = [_count(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number]
    text = ", ".join(counts) or "no errors"
    if len(diagnostics) > MAX_SHOWN:
        text += f" (the first {MAX_SHOWN} are shown)"
    fixable = sum(each.fix is not None and each.fix.applicability == "safe" for each in diagnostics)
    if fixable:
        text += f"; `tfdeploy check --fix` mends {fixable}"
    return text


def _where_more_is_told(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the last line of a report: the command that explains the first error or warning."""
    first = next((each for each in diagnostics if each.is_error), diagnostics[0])
    return f"`tfdeploy explain {first.code}` says more" + (" about it" if len(diagnostics) == 1 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def concise(diagnostics: Sequence[Diagnostic]) -> Iterator[str]:
    """Yield `path:line:col: error[CODE] message` for each diagnostic, shorter if it has no span."""
    for each in diagnostics:
        place = "" if each.file is None else f"{visible(each.file)}: "
        if each.span is not None:
            at = each.span.begin
            place = f"{visible(each.span.source.name)}:{at.line}:{at.column}: "
        yield f"{place}{each.severity.value}[{each.code}] {visible(each.message)}"


# --- for people: the message, the place, the lines of the source with markers, notes and help -------------

_STYLES = {
    "error": "\x1b[1;31m",
    "warning": "\x1b[1;33m",
    "title": "\x1b[1m",
    "frame": "\x1b[1;34m",
    "secondary": "\x1b[1;34m",
    "note": "\x1b[1m",
}
_RESET = "\x1b[0m"


def human(diagnostics: Sequence[Diagnostic], *, color: bool = False) -> Iterator[str]:
    """Yield the text of each diagnostic, in paragraphs."""
    for each in diagnostics:
        yield "".join(_colored(row, each.severity.value, color=color) + "\n" for row in _rows(each))


def _colored(row: Iterable[Styled], severity: str, *, color: bool) -> str:
    if not color:
        return "".join(piece.text for piece in row).rstrip()
    text = ""
    style = ""
    for piece in row:
        wanted = _STYLES.get(severity if piece.style == "primary" else piece.style, "")
        if wanted != style and (piece.text.strip() or not wanted):
            text += (_RESET if style else "") + wanted
            style = wanted
        text += piece.text
    return text + _RESET if style else text.rstrip()


def _rows(diagnostic: Diagnostic) -> Iterator[list[Styled]]:
    severity = diagnostic.severity.value
    message = visible(diagnostic.message)
    yield [Styled(f"{severity}[{diagnostic.code}]", severity), Styled(f": {message}", "title")]
    gutter = 1
    span = diagnostic.span
    if span is not None:
        marked = _marked(diagnostic)
        gutter = max(len(str(each.last)) for marks in marked.values() for each in marks)
        arrow = "-->"
        for source, marks in marked.items():
            lead = min(marks, key=lambda each: (not each.primary, each.first, each.start))
            place = f"{visible(source.name)}:{lead.first}:{lead.start + 1}"
            yield [Styled(f"{'':{gutter}}{arrow}", "frame"), Styled(f" {place}")]
            yield _bar(gutter)
            yield from snippet(source, marks, gutter)
            arrow = ":::"
    said = [
        *(("note", note) for note in diagnostic.notes),
        *([("help", diagnostic.help)] if diagnostic.help else []),
    ]
    if span is not None and said:
        yield _bar(gutter)
    for kind, text in said:
        yield from _remark(kind, text, gutter)


def _marked(diagnostic: Diagnostic) -> dict[Source, list[Mark]]:
    """Return the marks in each source, starting with the source of the fault."""
    marked: dict[Source, list[Mark]] = {}
    if diagnostic.span is not None:
        marked[diagnostic.span.source] = [mark(diagnostic.span, diagnostic.text, primary=True)]
    for label in diagnostic.labels:
        marked.setdefault(label.span.source, []).append(mark(label.span, label.text, primary=False))
    return marked


def _bar(gutter: int) -> list[Styled]:
    return [Styled(f"{'':{gutter}} |", "frame")]


def _remark(kind: str, text: str, gutter: int) -> Iterator[list[Styled]]:
    first, *rest = text.split("\n")
    yield [
        Styled(f"{'':{gutter}} =", "frame"),
        Styled(" "),
        Styled(f"{kind}:", "note"),
        Styled(f" {visible(first)}"),
    ]
    for line in rest:
        yield [Styled(" " * (gutter + len(kind) + 5)), Styled(visible(line))]
