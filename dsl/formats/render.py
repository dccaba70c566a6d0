"""Renders diagnostics in any of the formats, and writes those for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics import MAX_SHOWN, Diagnostic
from dsl.formats.cells import visible
from dsl.formats.programs import envelope, github, sarif
from dsl.formats.snippet import Mark, Styled, mark, snippet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dsl.source import Source


FORMATS = ("human", "concise", "json", "github", "sarif")


def render(diagnostics: Iterable[Diagnostic], format: str = "human", *, color: bool = False) -> str:  # noqa: A002
    """Return diagnostics as text.

    At most MAX_SHOWN are rendered; the human format ends with the number of all.

    Returns:
        The text. Without diagnostics it is empty, or an empty log for the formats that have one.
    """
    found = list(diagnostics)
    shown = found[:MAX_SHOWN]
    if format == "human":
        if not found:
            return ""
        return "\n".join([*human(shown, color=color), f"{summary(found)}\n{_where_more_is_told(shown)}\n"])
    if format == "concise":
        return "".join(f"{line}\n" for line in concise(shown))
    if format == "json":
        return envelope(found, shown)
    if format == "github":
        return "".join(f"{line}\n" for line in github(shown))
    if format == "sarif":
        return sarif(shown)
    raise ValueError(f"there is no format {format!r}")


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
