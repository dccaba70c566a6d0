"""The lexer. It never fails: unknown characters are reported and corrected or dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lark import Token

from dsl.errors import notation
from dsl.source import Span
from grammar import lark_parser
from grammar.lark_parser import retyped, span_of
from grammar.reports import MOST_TOKENS, TooManyError
from grammar.tokens import comments, habits, layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsl.source import Source
    from grammar.reports import Reports

LONGEST_NAME = 200
_SHOWN = 40
_WORDS = frozenset({"NAME", "INTEGER"})
_SEPARATORS = frozenset({";"})
_INSTEAD = {":": ("=", "EQUALS"), ";": (",", "COMMA")}


def tokens(source: Source, reports: Reports) -> list[Token]:
    """Return the tokens of a text, with newlines, without comments and other white space.

    Raises:
        TooManyError: If the spec has more tokens than are read, or has too many errors.
    """
    most = reports.left_for(source)
    raw = lark_parser.lex(source.text, most=most)
    if len(raw) > most:
        if not layout.is_too_deep(raw, source, reports):
            reports.add(notation.too_many_tokens(_start(span_of(source, raw[-1])), most=MOST_TOKENS))
        raise TooManyError
    reports.count(source, len(raw))
    text = comments.without_foreign(source, reports)
    return _checked(raw if text is source.text else lark_parser.lex(text), source, reports)


def _checked(raw: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Return tokens without what the language does not have, which is reported."""
    understood = habits.understood(layout.marked(raw), source, reports)
    found = [
        token if _is_fine(token) else _CHECKS[token.type](token, span_of(source, token), reports)
        for token in understood
    ]
    return _mended(found, source, reports) if any(each.type == "UNKNOWN" for each in found) else found


def _is_fine(token: Token) -> bool:
    """Whether there is nothing to say of a token alone."""
    kind = token.type
    return kind not in _CHECKS or (kind == "NAME" and len(token) <= LONGEST_NAME and token.isascii())


def _start(span: Span) -> Span:
    """Return as much of a span as is shown of what is too long."""
    return Span(span.source, span.start, min(span.end, span.start + _SHOWN))


def _name(token: Token, span: Span, reports: Reports) -> Token:
    if len(token) > LONGEST_NAME:
        reports.add(notation.name_too_long(_start(span), length=len(token), longest=LONGEST_NAME))
        reports.taint(span)
        return retyped(token, "NAME", token[:LONGEST_NAME])
    if not token.isascii():
        strange = sorted({letter for letter in token if not letter.isascii()})
        reports.add(notation.name_not_ascii(span, name=str(token), letters=strange[:5]))
        reports.taint(span)
    return token


def _open_string(token: Token, span: Span, reports: Reports) -> Token:
    reports.add(notation.unterminated_string(span))
    reports.taint(span)
    return retyped(token, "STRING", f'"{token[1:].rstrip(chr(92))}"')


def _other_quoted(token: Token, span: Span, reports: Reports) -> Token:
    inner = span.text[1:-1].replace('"', '\\"')
    reports.add(notation.single_quotes(span, right=f'"{inner}"'))
    return retyped(token, "STRING", f'"{token[1:-1]}"')


def _bad_number(token: Token, span: Span, reports: Reports) -> Token:
    right = f"0{token}" if token.startswith(".") else f"{token}0"
    reports.add(notation.malformed_number(span, written=str(token), right=right))
    reports.taint(span)
    return retyped(token, "FLOAT", f"0{token}0")


def _unknown(token: Token, span: Span, reports: Reports) -> Token:
    """Report an unknown character, and replace it if its intended meaning is known."""
    instead = _INSTEAD.get(token)
    if (
        str(token) in _SEPARATORS
        and _with_words(span).start < span.start
        and _with_words(span).end > span.end
    ):
        instead = None  # in the middle of a word it separates nothing
    reports.add(notation.unexpected_character(str(token), span, instead[0] if instead else None))
    reports.taint(_with_words(span))
    return retyped(token, instead[1], instead[0]) if instead else token


def _with_words(span: Span) -> Span:
    """Return `span` extended by the words that touch it."""
    text, start, end = span.source.text, span.start, span.end
    while start and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    while end < len(text) and (text[end].isalnum() or text[end] == "_"):
        end += 1
    return Span(span.source, start, end)


_CHECKS: dict[str, Callable[[Token, Span, Reports], Token]] = {
    "NAME": _name,
    "OPEN_STRING": _open_string,
    "OTHER_QUOTED": _other_quoted,
    "BAD_NUMBER": _bad_number,
    "UNKNOWN": _unknown,
}


def _mended(found: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Drop unknown characters. A word that contained one becomes one word, whose other errors are dropped."""
    mended: list[Token] = []
    joins = False
    for token in found:
        if token.type == "UNKNOWN":
            joins = bool(mended) and mended[-1].end_pos == token.start_pos and mended[-1].type in _WORDS
            if joins:
                mended[-1] = _stretched(mended[-1], token, "")
                reports.taint(span_of(source, mended[-1]))
            continue
        if joins and token.start_pos == mended[-1].end_pos and token.type in _WORDS:
            mended[-1] = _stretched(mended[-1], token, str(token))
            reports.taint(span_of(source, mended[-1]))
        else:
            mended.append(token)
        joins = False
    return mended


def _stretched(token: Token, to: Token, more: str) -> Token:
    kind = "QUANTITY" if token.type == "INTEGER" and not more.isdecimal() and more else token.type
    longer = retyped(token, kind, f"{token}{more}")
    longer.end_pos = to.end_pos
    return longer
