"""The values of strings and numbers as they are written."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from dsl import syntax
from dsl.errors import reading
from dsl.source import Span

if TYPE_CHECKING:
    from lark import Token

    from grammar.reports import Reports

_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
# Patterns are not compiled before a spec has something for them: each would cost every command 0.1 ms.
_ESCAPE = r"\\(.)"
_QUANTITY = r"([\d_]+(?:\.[\d_]+)?(?:[eE][+-]?\d[\d_]*)?)[ \t]*(.+)"
_MOST_DIGITS = 300


def text(quoted: str, span: Span, reports: Reports) -> str:
    """Return the value of a quoted string, and report unknown escapes.

    Args:
        quoted: The string with its quotes.
        span: Its place.
        reports: The reports of the text.
    """
    inner = quoted[1:-1]
    if "\\" not in inner:
        return inner
    for match in re.finditer(_ESCAPE, inner):
        if match[1] not in _ESCAPES:
            start = span.start + 1 + match.start()
            reports.add(
                reading.unknown_escape(
                    Span(span.source, start, start + 2), escape=match[0], quote=match[0][1] == "'"
                )
            )
    return re.sub(_ESCAPE, lambda match: _ESCAPES.get(match[1], match[0]), inner)


def number(token: Token, span: Span, reports: Reports) -> syntax.Expr:
    """Return the number in a token, with its unit if it has one.

    Args:
        token: The token.
        span: Its place.
        reports: The reports of the text.
    """
    written = str(token)
    match = re.fullmatch(_QUANTITY, written) if token.type == "QUANTITY" else None
    digits, unit = (match[1], match[2]) if match else (written, None)
    if "_" in digits and ("__" in digits or re.search(r"_(?!\d)", digits)):
        reports.add(reading.misplaced_underscore(span, written=written))
        return syntax.Broken(span=span)
    if len(digits) > _MOST_DIGITS:
        reports.add(reading.too_many_digits(span, digits=span.end - span.start))
        return syntax.Broken(span=span)
    value = int(digits) if digits.replace("_", "").isdecimal() else float(digits)
    if math.isinf(value):
        reports.add(reading.number_too_large(span, written=written))
        return syntax.Broken(span=span)
    return syntax.Number(value, unit, span=span)
