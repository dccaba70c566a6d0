"""Comments of other languages, `// ...` and `/* ... */`: reported once for a file and then left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsl.diagnostics import Edit
from dsl.errors import reading
from dsl.source import Span

if TYPE_CHECKING:
    from dsl.source import Source
    from grammar.reports import Reports

_SIGNS = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"?|\'[^\'\n]*\'|#[^\n]*|//|/\*')
_OPERAND = re.compile(r"//[ \t]*[\w.]+[ \t]*(?:[)\],}#\n]|$)")
"""What can follow a `//` that was meant as a division: a number or a name at the end of an expression."""


def without_foreign(source: Source, reports: Reports) -> str:
    """Return the text with comments of other languages replaced by blanks, and report them.

    Offsets and lines stay the same. A `//` between two operands is not a comment and is left in the text.

    Args:
        source: The text.
        reports: The reports, to which one for all comments of the file is added.
    """
    text = source.text
    if "//" not in text and "/*" not in text:
        return text
    spans = _foreign(source)
    if not spans:
        return text
    edits = [_edits(span) for span in spans]
    whole = [each for found in edits if found for each in found] if all(edits) else []
    reports.add(reading.foreign_comments(spans, whole))
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.start], re.sub(r"[^\n]", " ", span.text)]
        end = span.end
    return "".join([*parts, text[end:]])


def _foreign(source: Source) -> list[Span]:
    """Return the places of comments of other languages, in one pass over the text."""
    text, spans, at = source.text, [], 0
    last_close = text.rfind("*/")
    while match := _SIGNS.search(text, at):
        start, at = match.span()
        if match[0] not in {"//", "/*"} or (match[0] == "//" and _divides(text, start)):
            continue
        line_end = text.find("\n", start)
        line_end = len(text) if line_end < 0 else line_end
        whole = match[0] == "/*" and last_close >= at
        at = text.index("*/", at) + 2 if whole else line_end
        spans.append(Span(source, start, at))
    return spans


def _divides(text: str, at: int) -> bool:
    """Whether the `//` at an offset is written between two operands, like an operator."""
    before = text[text.rfind("\n", 0, at) + 1 : at].rstrip()
    return before[-1:].isalnum() and _OPERAND.match(text, at) is not None


def _edits(span: Span) -> tuple[Edit, ...] | None:
    """Return the edits that turn a comment into one of this language, or None if more follows on its line."""
    if span.text.startswith("//"):
        return (Edit(Span(span.source, span.start, span.start + 2), "#"),)
    if not span.text.endswith("*/"):
        return (Edit(Span(span.source, span.start, span.start + 2), "#"),)
    text = span.source.text
    line_end = text.find("\n", span.end)
    if text[span.end : len(text) if line_end < 0 else line_end].strip():
        return None
    indent = " " * (span.begin.column - 1)
    lines = [line.strip().removeprefix("*").strip() for line in span.text[2:-2].split("\n")]
    kept = [line for at, line in enumerate(lines) if line or 0 < at < len(lines) - 1] or [""]
    return (Edit(span, f"\n{indent}".join(f"# {line}".rstrip() for line in kept)),)
