"""Comments of other languages, `// ...` and `/* ... */`: told once for a file, and then left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsl.diagnostics import Edit
from dsl.errors.text import habits
from dsl.source import Span

if TYPE_CHECKING:
    from dsl.source import Source
    from grammar.reports import Reports

_SIGNS = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"?|\'[^\'\n]*\'|#[^\n]*|//|/\*')
_OPERAND = re.compile(r"//[ \t]*[\w.]+[ \t]*(?:[)\],}#\n]|$)")
"""What follows a `//` that divides: a number or a name, and then nothing."""


def without_foreign(source: Source, reports: Reports) -> str:
    """Return the text of `source` with blanks in place of comments of other languages, which are reported.

    Offsets and lines stay what they are. A `//` between two operands is no comment and is left in place.
    """
    text = source.text
    if "//" not in text and "/*" not in text:
        return text
    spans = _foreign(source)
    if not spans:
        return text
    edits = [_edits(span) for span in spans]
    whole = [each for found in edits if found for each in found] if all(edits) else []
    reports.add(habits.foreign_comments(spans, whole))
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.start], re.sub(r"[^\n]", " ", span.text)]
        end = span.end
    return "".join([*parts, text[end:]])


def _foreign(source: Source) -> list[Span]:
    """Return where the comments of other languages stand, in one pass over the text."""
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
    """Whether the `//` at an offset stands between two operands, as if it were an operator."""
    before = text[text.rfind("\n", 0, at) + 1 : at].rstrip()
    return before[-1:].isalnum() and _OPERAND.match(text, at) is not None


def _edits(span: Span) -> tuple[Edit, ...] | None:
    """Return what makes a comment of this language of one, None where something follows it on its line."""
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
