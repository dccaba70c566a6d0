"""Diagnostics for people: the message, the place, the lines of the source with markers, notes and help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.formats.cells import visible
from dsl.formats.snippet import Mark, Styled, mark, snippet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dsl.diagnostics import Diagnostic
    from dsl.source import Source

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
    """Yield the text of each diagnostic, in paragraphs.

    Args:
        diagnostics: The diagnostics.
        color: Whether to use terminal colours.
    """
    for each in diagnostics:
        yield "".join(_line(row, each.severity.value, color=color) + "\n" for row in _rows(each))


def _line(row: Iterable[Styled], severity: str, *, color: bool) -> str:
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
