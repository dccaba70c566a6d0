"""Comments `# tfdeploy: allow(name, ...)`, which switch lints off.

At the end of a line, such a comment is for that line. On a line of its own it is for the next line that is
not empty, and before everything else it is for the whole file.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from dsl.codes import CODES
from dsl.errors import lint
from dsl.source import Source, Span
from dsl.suggest import nearest
from dsl.syntax import Allowance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lark import Token

    from dsl.diagnostics import Diagnostic
    from grammar.reports import Reports

_SIGN = "tfdeploy:"
_COMMENT = r"#[ \t]*tfdeploy:[ \t]*allow\(([^()\n]*)\)"
_NAME = r"[^\s,]+"


def allowances(source: Source, tokens: Sequence[Token], reports: Reports) -> tuple[Allowance, ...]:
    """Return the lints that the comments of a text switch off, and report names that are not lints.

    Args:
        source: The text.
        tokens: The tokens of the text.
        reports: Collects the diagnostics.
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
