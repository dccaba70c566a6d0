"""Prepares tokens for the parser: brackets are balanced, and newlines remain only at the ends of items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lark import Token

from dsl.errors import reading
from dsl.source import Span
from grammar.tokens import brackets, context
from grammar.tokens.brackets import CLOSER, OPENER, starts_item

if TYPE_CHECKING:
    from dsl.source import Source
    from grammar.reports import Reports

DEEPEST = 50
_OPERATORS = frozenset({"EQUALS", "PLUS", "STAR", "SLASH", "DOT", "DOTDOT", "COMPARE"})
_STARTS_NOTHING = _OPERATORS | {"LBRACE"}
_ASKS_FOR_MORE = _OPERATORS | {"ARROW", "MINUS"}


def arrange(tokens: list[Token], source: Source, reports: Reports) -> list[Token] | None:
    """Balance the brackets and drop the newlines that end no item.

    Args:
        tokens: The tokens.
        source: The text that they are of.
        reports: The reports, to which errors are added.

    Returns:
        The tokens, or None if brackets are nested too deeply.
    """
    survey = _survey(tokens)
    if _reported_depth(survey, source, reports):
        return None
    if not survey:
        balanced = brackets.balanced(tokens, source, reports)
        tokens = context.marked(balanced)  # what followed an unclosed bracket could not be told before
    return _without_idle_newlines(tokens, source, reports)


def is_too_deep(tokens: list[Token], source: Source, reports: Reports) -> bool:
    """Report the first bracket that is nested too deeply, and return whether there is one.

    Args:
        tokens: The tokens.
        source: The text that they are of.
        reports: The reports, to which the error is added.
    """
    return _reported_depth(_survey(tokens), source, reports)


def _reported_depth(survey: Token | bool, source: Source, reports: Reports) -> bool:
    if isinstance(survey, bool):
        return False
    place = Span(source, survey.start_pos or 0, survey.end_pos or 0)
    reports.add(reading.nested_too_deeply(place, deepest=DEEPEST))
    return True


def _survey(tokens: list[Token]) -> Token | bool:
    """Return whether every bracket has a partner, or the first bracket that is nested too deeply."""
    expected: list[str] = []
    balanced = True
    for token in tokens:
        if token.type in CLOSER:
            expected.append(CLOSER[token.type])
            if len(expected) > DEEPEST:
                return token
        elif token.type in OPENER:
            if expected and expected[-1] == token.type:
                expected.pop()
            else:
                balanced = False
    return balanced and not expected


def _without_idle_newlines(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Drop newlines that end no item: in brackets, before `->`, at the ends of a block, and repeated ones."""
    out: list[Token] = []
    opened: list[str] = []
    pending: Token | None = None
    for at, token in enumerate(tokens):
        kind = token.type
        if kind == "NEWLINE":
            if pending is None and (not opened or opened[-1] == "LBRACE"):
                pending = token
            continue
        if pending is not None:
            idle = kind in {"RBRACE", "ARROW", "COMMA"} or not out or out[-1].type in {"LBRACE", "COMMA"}
            if not idle and out and not _joined(out, tokens, at, source, reports):
                out.append(pending)
            pending = None
        if kind in CLOSER:
            opened.append(kind)
        elif kind in OPENER:
            opened.pop()
        out.append(token)
    return out


def _joined(out: list[Token], tokens: list[Token], at: int, source: Source, reports: Reports) -> bool:
    """Return whether the line before token `at` continues in the next line, and report that it may not."""
    before, token = out[-1], tokens[at]
    open_ended = before.type in _ASKS_FOR_MORE and not starts_item(tokens, at)
    if not open_ended and token.type not in _STARTS_NOTHING:
        return False
    end = Span(source, before.start_pos or 0, before.end_pos or 0)
    start = Span(source, token.start_pos or 0, token.end_pos or 0)
    reports.add(
        reading.line_wants_more(end, arrow=end.text == "->", after=start)
        if open_ended
        else reading.line_goes_on(start, brace=start.text == "{", before=end)
    )
    line_end = source.text.find("\n", start.end)
    reports.taint(Span(source, end.start, len(source.text) if line_end < 0 else line_end))
    if token.type == "LBRACE" and not _is_header(out):
        reports.distrust(source)
    return True


def _is_header(out: list[Token]) -> bool:
    """Whether the last line in `out` is the header of a block, with or without the block's own name."""
    kinds = ["NEWLINE", *(token.type for token in out[-3:])]
    return kinds[-2:] == ["NEWLINE", "NAME"] or kinds[-3:] in (
        ["NEWLINE", "NAME", "STRING"],
        ["NEWLINE", "NAME", "NAME"],
    )
