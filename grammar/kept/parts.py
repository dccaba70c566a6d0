"""Parses a piece of a text, with the same result as if the whole text were parsed.

What is around a piece counts by little: whether it is in a block and in which, and how the next item begins.
So the piece is parsed between a header, an item and the end of a block that are made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lark import Token

from dsl import syntax
from dsl.source import Source, Span
from grammar.allowances import allowances
from grammar.parsing.parser import parse_tokens
from grammar.reports import Reports
from grammar.tokens import habits, lexer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grammar.kept.pieces import First, Piece

_FAR = 1_000_000
"""A column after that of every item."""


class OfTheWholeTextError(Exception):
    """Raised if a piece cannot be parsed by itself."""


def parse(
    piece: Piece, raw: Sequence[Token], after: Sequence[Token], following: First | None, source: Source
) -> None:
    """Parse a piece, and keep what it has.

    Args:
        piece: The piece.
        raw: Its tokens.
        after: The newlines before the next token of the text, and the end of the block if it is that token.
        following: The first token of the next piece of the same block, or None if there is none.
        source: The text.

    Raises:
        OfTheWholeTextError: If what is wrong with the piece is reported once for the whole text.
    """
    reports = Reports()
    end = (after[-1].end_pos or 0) if after else piece.end
    closed = bool(after) and after[-1].type == "RBRACE"
    closer = [] if closed or piece.inside is None or piece.role != "items" else _made(end, _CLOSER, line=_FAR)
    made = [*_header(piece), *raw, *after, *_follower(following, end), *closer]
    if habits.has_told_once(made):
        raise OfTheWholeTextError
    tokens = lexer.checked(made, source, reports)
    items = parse_tokens(tokens, source, reports) if piece.role == "items" else ()
    errors = len(reports.found)
    if items is None:
        raise OfTheWholeTextError
    if piece.role == "items" and piece.inside is not None:
        if len(items) != 1 or not isinstance(items[0], syntax.Block):
            raise OfTheWholeTextError
        items = items[0].items
    if piece.role == "items" and following is not None:
        if not items or items[-1].span.start != end or items[-1].span.end != end:
            raise OfTheWholeTextError
        items = items[:-1]
    own = [token for token in tokens if not isinstance(token, _Made) and (token.start_pos or 0) < piece.end]
    piece.allowances = allowances(source, own, reports, (piece.start, piece.end))
    piece.items = items
    piece.found = tuple(reports.found)
    piece.errors = max(errors, len(piece.found))
    piece.tainted = tuple(
        (start - piece.start, end - piece.start) for start, end in reports.tainted_in(source)
    )
    piece.distrusted = reports.is_distrusted(source)
    piece.spans = None
    if any(not piece.start <= each.start <= each.end <= end for each in spans_in(piece)):
        raise OfTheWholeTextError


class _Made(Token):
    """A token that is not in the text."""


_CLOSER = ("RBRACE", "}")


def _made(at: int, *tokens: tuple[str, str], column: int = 1, line: int = 0) -> list[Token]:
    return [_Made(kind, text, at, line, column, line, column, at) for kind, text in tokens]


def _header(piece: Piece) -> list[Token]:
    if piece.inside is None or piece.role != "items":
        return []
    before = piece.start - 1
    header = _made(before, ("NAME", piece.inside.kind), ("LBRACE", "{"))
    return [*header, *_made(before, ("NEWLINE", "\n"), column=_FAR)]


def _follower(following: First | None, at: int) -> list[Token]:
    if following is None:
        return []
    value = (("EQUALS", "="), ("INTEGER", "1")) if following.starts_item else ()
    tokens = (("NAME", "following"), *value, ("NEWLINE", "\n"))
    return _made(at, *tokens, column=following.indent + 1, line=_FAR)


def opened(raw: Sequence[Token], source: Source) -> syntax.Block:
    """Return the block that begins with some tokens, without its items; its span is that of its header.

    Args:
        raw: The tokens of the header up to its opening brace, of which newlines are ignored.
        source: The text that they are of.
    """
    words = [token for token in raw if token.type != "NEWLINE"][:-1]
    kind = words[0]
    label = words[1] if len(words) > 1 else None
    kind_span = _span(kind, source)
    label_span = None if label is None else _span(label, source)
    header = Span(source, kind_span.start, (label_span or kind_span).end)
    text = None if label is None else str(label)[1:-1]
    return syntax.Block(str(kind), kind_span, header, text, label_span, (), span=header)


def _span(token: Token, source: Source) -> Span:
    return Span(source, token.start_pos or 0, token.end_pos or 0)


# --- places -----------------------------------------------------------------------------------------------


def spans_in(piece: Piece) -> list[Span]:
    """Return all places in what was parsed of a piece and in what is wrong with it, each once."""
    if piece.spans is None:
        found = {id(span): span for span in syntax.spans_in(piece.items)}
        for each in piece.allowances:
            found[id(each.span)] = each.span
        for diagnostic in piece.found:
            places = [diagnostic.span, *(label.span for label in diagnostic.labels)]
            places += [edit.span for edit in (diagnostic.fix.edits if diagnostic.fix else ())]
            found.update((id(span), span) for span in places if span is not None)
        piece.spans = list(found.values())
    return piece.spans
