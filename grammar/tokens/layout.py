"""Prepares tokens for the parser: brackets are balanced, and newlines remain only at the ends of items."""

from __future__ import annotations

from lark import Token

from dsl.errors import notation
from dsl.source import Source, Span
from grammar.lark_parser import retyped, span_of
from grammar.reports import Reports
from grammar.tokens import brackets
from grammar.tokens.brackets import CLOSER, DEEPEST, OPENER, follow, starts_item, survey

# --- tokens whose meaning depends on those around them ----------------------------------------------------

_UNREAD = frozenset({"WHITE", "COMMENT"})
_BEFORE_ITEM = frozenset({"NEWLINE", "LBRACE", "COMMA"})
INDEXED = frozenset({"NAME", "RPAREN"})
"""The tokens after which an opening bracket is that of an index."""
_MODELS = frozenset({"model", "layer"})


def marked(tokens: list[Token]) -> list[Token]:
    """Return `tokens` with the types that these have. White space and comments may be among them.

    The parser looks one token ahead, so that it cannot tell these apart itself:

    - `:` in the brackets of an index, in a model, is a COLON: `x[:, 1:3]`. Elsewhere it is a foreign habit.
    - `(` after `)` and before `name =` is AGAIN: the arguments of a layer's call, `LSTM(8)(mask = m)`.
    - `,` between names before `=`, in a model, is ALSO: `sequence, state = x -> LSTM(...)`.
    """
    found = list(tokens)
    read = [at for at, token in enumerate(tokens) if token.type not in _UNREAD]
    kinds = [tokens[at].type for at in read]
    blocks: list[bool] = []  # for each open brace, whether it is within a model or a layer
    opened: list[str] = []
    for number, kind in enumerate(kinds):
        if kind not in _LOOKED_AT:
            continue
        before = kinds[number - 1] if number else ""
        if kind == "LBRACE":
            words = [tokens[at] for at in read[max(number - 2, 0) : number]]
            blocks.append(_opens_model(words) or bool(blocks and blocks[-1]))
        elif kind == "RBRACE" and blocks:
            blocks.pop()
        follow(opened, kind, "INDEX" if kind == "LBRACKET" and before in INDEXED else "")
        in_model = bool(blocks and blocks[-1])
        if kind == "LPAREN" and before == "RPAREN" and kinds[number + 1 : number + 3] == ["NAME", "EQUALS"]:
            found[read[number]] = retyped(tokens[read[number]], "AGAIN")
        elif in_model and kind == "UNKNOWN" and opened[-1:] == ["INDEX"] and str(tokens[read[number]]) == ":":
            found[read[number]] = retyped(tokens[read[number]], "COLON")
        elif in_model and kind == "NAME" and before in _BEFORE_ITEM and opened[-1:] == ["LBRACE"]:
            for comma in _commas_before_equals(kinds, number):
                found[read[comma]] = retyped(tokens[read[comma]], "ALSO")
    return found


_LOOKED_AT = frozenset({"NAME", "UNKNOWN", *CLOSER, *OPENER})


def _opens_model(before: list[Token]) -> bool:
    if not before:
        return False
    other, one = before if len(before) > 1 else (None, before[-1])
    if one.type == "STRING":
        return other is not None and other in _MODELS
    return one in _MODELS or (one.type == "NAME" and other is not None and other in _MODELS)


def _commas_before_equals(kinds: list[str], number: int) -> list[int]:
    """Return where the commas of `a, b, c =` are, if that starts here; nothing if it does not."""
    commas = []
    at = number + 1
    while kinds[at : at + 2] == ["COMMA", "NAME"]:
        commas.append(at)
        at += 2
    return commas if kinds[at : at + 1] == ["EQUALS"] else []


# --- brackets and newlines --------------------------------------------------------------------------------

_OPERATORS = frozenset({"EQUALS", "PLUS", "STAR", "SLASH", "DOT", "DOTDOT", "COMPARE"})
_STARTS_NOTHING = _OPERATORS | {"LBRACE"}
_ASKS_FOR_MORE = _OPERATORS | {"ARROW", "MINUS"}


def arrange(tokens: list[Token], source: Source, reports: Reports) -> list[Token] | None:
    """Balance the brackets, drop newlines that end no item; return None if brackets are nested too deeply."""
    found = survey(tokens)
    if _reported_depth(found, source, reports):
        return None
    if not found:
        balanced = brackets.balanced(tokens, source, reports)
        tokens = marked(balanced)  # what followed an unclosed bracket could not be told before
    return _without_idle_newlines(tokens, source, reports)


def is_too_deep(tokens: list[Token], source: Source, reports: Reports) -> bool:
    """Report the first bracket that is nested too deeply, and return whether there is one."""
    return _reported_depth(survey(tokens), source, reports)


def _reported_depth(found: Token | bool, source: Source, reports: Reports) -> bool:
    if isinstance(found, bool):
        return False
    place = span_of(source, found)
    reports.add(notation.nested_too_deeply(place, deepest=DEEPEST))
    return True


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
        follow(opened, kind)
        out.append(token)
    return out


def _joined(out: list[Token], tokens: list[Token], at: int, source: Source, reports: Reports) -> bool:
    """Return whether the line before token `at` continues in the next line, and report that it may not."""
    before, token = out[-1], tokens[at]
    open_ended = before.type in _ASKS_FOR_MORE and not starts_item(tokens, at)
    if not open_ended and token.type not in _STARTS_NOTHING:
        return False
    end = span_of(source, before)
    start = span_of(source, token)
    reports.add(
        notation.line_wants_more(end, arrow=end.text == "->", after=start)
        if open_ended
        else notation.line_goes_on(start, brace=start.text == "{", before=end)
    )
    reports.taint(Span(source, end.start, source.line_end(start.end)))
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
