"""The parser: text to the syntax tree of `dsl.syntax`. Errors are reported, and everything else is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl import syntax
from dsl.errors import notation
from dsl.source import Span
from grammar.lark_parser import RunningParser
from grammar.parsing.builder import Builder
from grammar.parsing.recovery import Recovery
from grammar.reports import TooManyError
from grammar.tokens import layout, lexer
from grammar.tokens.comments import allowances

if TYPE_CHECKING:
    import lark

    from dsl.source import Source
    from grammar.reports import Reports


def parse(source: Source, reports: Reports) -> syntax.File | None:
    """Parse a text.

    Returns:
        The syntax tree, or None if nothing could be parsed or there are too many errors.
    """
    try:
        tokens = lexer.tokens(source, reports)
        arranged = layout.arrange(tokens, source, reports)
        if arranged is None:
            return None
        items = _items(arranged, source, reports)
        reports.thin(source)
        return syntax.File(source, items, allowances(source, tokens, reports))
    except TooManyError:
        return None


def parse_value(source: Source, start: int, reports: Reports) -> syntax.Expr | None:
    """Parse a single expression.

    Args:
        source: The text.
        start: The offset at which the expression starts; it must extend to the end of the text.
        reports: Collects the diagnostics.

    Returns:
        The expression, or None if there is an error.
    """
    before = reports.in_source(source)
    tokens = [token for token in lexer.tokens(source, reports) if (token.start_pos or 0) >= start]
    arranged = layout.arrange(tokens, source, reports)
    if not arranged:
        if reports.in_source(source) == before:
            reports.add(notation.value_expected(Span(source, start, len(source.text))))
        return None
    items = _items(arranged, source, reports)
    if reports.in_source(source) > before:
        return None
    if len(items) == 1 and isinstance(items[0], syntax.Entry):
        return items[0].value
    reports.add(notation.not_a_value(items[0].span.to(items[-1].span)))
    return None


def _items(tokens: list[lark.Token], source: Source, reports: Reports) -> tuple[syntax.Item, ...]:
    parser = RunningParser(Builder(source, reports))
    recovery = Recovery(parser, tokens, source, reports)
    at = 0
    while (at := parser.feed_all(tokens, at)) < len(tokens):
        at = recovery.recover(at)
    items: tuple[syntax.Item, ...] = recovery.finish()
    return items
