"""Comments: those of other languages, which are reported and left out, and those that switch lints off."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from dsl.codes import CODES
from dsl.diagnostics import Edit
from dsl.errors import lint, notation
from dsl.source import Source, Span
from dsl.suggest import nearest
from dsl.syntax import Allowance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark import Token

    from dsl.diagnostics import Diagnostic
    from grammar.reports import Reports


_SIGNS = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"?|\'[^\'\n]*\'|#[^\n]*|//|/\*')
_OPERAND = re.compile(r"//[ \t]*[\w.]+[ \t]*(?:[)\],}#\n]|$)")
"""What can follow a `//` that was meant as a division: a number or a name at the end of an expression."""


def without_foreign(source: Source, reports: Reports) -> str:
    """Return the text with comments of other languages replaced by blanks, and report them.

    Offsets and lines stay the same. A `//` between two operands is not a comment and is left in the text.
    """
    text = source.text
    if "//" not in text and "/*" not in text:
        return text
    spans = _foreign(source)
    if not spans:
        return text
    edits = [_edits(span) for span in spans]
    whole = [each for found in edits if found for each in found] if all(edits) else []
    reports.add(notation.foreign_comments(spans, whole))
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
        whole = match[0] == "/*" and last_close >= at
        at = text.index("*/", at) + 2 if whole else source.line_end(start)
        spans.append(Span(source, start, at))
    return spans


def _divides(text: str, at: int) -> bool:
    """Whether the `//` at an offset is written between two operands, like an operator."""
    before = text[text.rfind("\n", 0, at) + 1 : at].rstrip()
    return before[-1:].isalnum() and _OPERAND.match(text, at) is not None


def _edits(span: Span) -> tuple[Edit, ...] | None:
    """Return the edits that turn a comment into one of this language, or None if more follows on its line."""
    if span.text.startswith("//") or not span.text.endswith("*/"):
        return (Edit(Span(span.source, span.start, span.start + 2), "#"),)
    text = span.source.text
    if text[span.end : span.source.line_end(span.end)].strip():
        return None
    indent = " " * (span.begin.column - 1)
    lines = [line.strip().removeprefix("*").strip() for line in span.text[2:-2].split("\n")]
    kept = [line for at, line in enumerate(lines) if line or 0 < at < len(lines) - 1] or [""]
    return (Edit(span, f"\n{indent}".join(f"# {line}".rstrip() for line in kept)),)


# --- comments that switch lints off: `# tfdeploy: allow(name, ...)` ---------------------------------------

_SIGN = "tfdeploy:"
_COMMENT = r"#[ \t]*tfdeploy:[ \t]*allow\(([^()\n]*)\)"
_NAME = r"[^\s,]+"


def allowances(source: Source, tokens: Sequence[Token], reports: Reports) -> tuple[Allowance, ...]:
    """Return the lints that the comments of a text switch off, and report names that are not lints.

    At the end of a line, such a comment is for that line. On a line of its own it is for the next line that
    is not empty, and before everything else it is for the whole file.
    """
    if _SIGN not in source.text:
        return ()
    known = {code.name for code in CODES.values() if is_lint(code.code)}
    significant = [token for token in tokens if token.type != "NEWLINE"]
    found = tuple(_found(source, significant))
    for each in found:
        if each.name not in known:
            reports.add(
                lint.unknown_lint(
                    each.span, name=each.name, near=nearest(each.name, known), known=sorted(known)
                )
            )
    return found


def is_lint(code: str) -> bool:
    """Whether a comment can switch the diagnostics of `code` off."""
    return code.startswith("TFD6") or code == "TFD206"


def allowed(diagnostic: Diagnostic, given: Sequence[Allowance]) -> bool:
    """Whether one of the allowances covers a diagnostic.

    Args:
        diagnostic: The diagnostic; only those of lints can be covered.
        given: The comments of all files of the spec that allow something.
    """
    span = diagnostic.span
    if span is None or not is_lint(diagnostic.code):
        return False
    line = span.begin.line
    return any(
        each.name == diagnostic.name and each.span.source is span.source and each.line in {None, line}
        for each in given
    )


def _found(source: Source, tokens: list[Token]) -> Iterator[Allowance]:
    starts = [token.start_pos or 0 for token in tokens]
    for match in re.finditer(_COMMENT, source.text):
        after = bisect_right(starts, match.start())
        if after and (tokens[after - 1].end_pos or 0) > match.start():
            continue  # inside a string
        line = source.position(match.start()).line
        if not after:
            covered = None
        elif tokens[after - 1].end_line == line or after == len(tokens):
            covered = line
        else:
            covered = tokens[after].line
        for name in re.finditer(_NAME, match[1]):
            at = match.start(1) + name.start()
            yield Allowance(name[0], Span(source, at, at + len(name[0])), covered)
