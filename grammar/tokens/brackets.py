"""Balances round and square brackets, item by item, after the braces have been balanced.

The first fault of an item is reported. Further faults are corrected silently, and errors in the meaning of
the item are dropped, because its structure is a guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lark import Token

from dsl.errors import reading
from dsl.source import Span
from grammar.tokens.braces import starts_item
from grammar.tokens.bracket_tokens import BRACKET, CLOSER, OPENER, indent_of, made_after

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.diagnostics import Diagnostic
    from dsl.source import Source
    from grammar.reports import Reports

_BRACES = frozenset({"LBRACE", "RBRACE"})
_CONTINUES = frozenset({"COMMA", "EQUALS", "ARROW", "PLUS", "MINUS", "STAR", "SLASH", "LPAREN", "LBRACKET"})
_CONTINUATION = frozenset({"ARROW", "RPAREN", "RBRACKET"})


def balanced(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Return the tokens with every round and square bracket closed within its item.

    Args:
        tokens: The tokens.
        source: The text that they are of.
        reports: The reports of the text.
    """
    out: list[Token] = []
    for start, end in _items(tokens):
        item = tokens[start:end]
        if not _matches(item):
            item = _Item(item, source, reports).mended()
            if end < len(tokens) and tokens[end].type == "LBRACE":
                reports.taint(Span(source, tokens[end].start_pos or 0, tokens[end].end_pos or 0))
        out.extend(item)
        out.extend(tokens[end : end + 1])
    return out


def _items(tokens: list[Token]) -> Iterator[tuple[int, int]]:
    """Yield where items start and end; the newline or brace at the end is not in them."""
    start = 0
    while start < len(tokens):
        end = _end_of_item(tokens, start)
        yield start, end
        start = end + 1


def _end_of_item(tokens: list[Token], start: int) -> int:
    """Return the index at which an item ends: at a brace, or at a newline before the next item."""
    indent = indent_of(tokens[start])
    for at in range(start, len(tokens)):
        kind = tokens[at].type
        if kind in _BRACES:
            return at
        if kind == "NEWLINE" and at + 1 < len(tokens) and _starts_next(tokens, at, indent):
            return at
    return len(tokens)


def _starts_next(tokens: list[Token], newline: int, indent: int) -> bool:
    following = tokens[newline + 1]
    if following.type in {*_CONTINUATION, "NEWLINE"} or indent_of(following) > indent:
        return False
    if starts_item(tokens, newline + 1):
        return True
    return newline == 0 or tokens[newline - 1].type not in _CONTINUES


def _matches(item: list[Token]) -> bool:
    expected: list[str] = []
    for token in item:
        if token.type in CLOSER:
            expected.append(CLOSER[token.type])
        elif token.type in OPENER and (not expected or expected.pop() != token.type):
            return False
    return not expected


class _Item:
    """One item whose brackets do not match."""

    def __init__(self, tokens: list[Token], source: Source, reports: Reports) -> None:
        kinds = [token.type for token in tokens]
        self._tokens = tokens
        self._source = source
        self._reports = reports
        self._surplus = {closer: kinds.count(closer) - kinds.count(OPENER[closer]) for closer in OPENER}
        self._open: list[Token] = []
        self._out: list[Token] = []
        self._said = any(reports.is_tainted(self._span(token)) for token in tokens)

    def mended(self) -> list[Token]:
        """Return the tokens with brackets inserted, exchanged or left out."""
        for at, token in enumerate(self._tokens):
            if token.type in CLOSER:
                self._open.append(token)
                self._out.append(token)
            elif token.type in OPENER:
                self._closing(token)
            else:
                if token.type == "ARROW" and at and self._tokens[at - 1].type == "NEWLINE":
                    self._close_calls()
                self._out.append(token)
        while self._open:
            self._close()
        whole = self._span(self._tokens[0]).to(self._span(self._tokens[-1]))
        self._reports.taint(whole)
        return self._out

    def _closing(self, token: Token) -> None:
        kinds = [opener.type for opener in self._open]
        wanted = OPENER[token.type]
        if kinds and kinds[-1] == wanted:
            self._open.pop()
            self._out.append(token)
        elif not kinds or (self._surplus[token.type] > 0 and wanted in kinds):
            self._drop(token)
        elif wanted in kinds:
            while self._open[-1].type != wanted:
                self._close()
            self._open.pop()
            self._out.append(token)
        elif self._surplus[CLOSER[kinds[-1]]] < 0:
            self._exchange(token)
        else:
            self._drop(token)

    def _close_calls(self) -> None:
        """Close open calls before a line that starts with `->`, if closing brackets are missing."""
        while self._open and self._surplus[CLOSER[self._open[-1].type]] < 0:
            self._close()

    def _close(self) -> None:
        """Insert the closing bracket of the innermost open one."""
        opener = self._open.pop()
        self._report(
            reading.unclosed(
                self._span(opener),
                opener=BRACKET[opener.type],
                closer=BRACKET[CLOSER[opener.type]],
            )
        )
        self._surplus[CLOSER[opener.type]] += 1
        end = len(self._out)
        while self._out[end - 1].type == "NEWLINE":
            end -= 1
        self._out.insert(end, made_after(CLOSER[opener.type], self._out[end - 1]))

    def _drop(self, token: Token) -> None:
        self._surplus[token.type] -= 1
        self._report(reading.unmatched(self._span(token), closer=str(token)))

    def _exchange(self, token: Token) -> None:
        """Replace a closing bracket by the one that is needed."""
        opener = self._open.pop()
        right = CLOSER[opener.type]
        self._surplus[token.type] -= 1
        self._surplus[right] += 1
        self._report(
            reading.wrong_closer(
                self._span(token),
                opener=BRACKET[opener.type],
                closer=str(token),
                right=BRACKET[right],
                opened=self._span(opener),
            )
        )
        self._out.append(Token.new_borrow_pos(right, BRACKET[right], token))

    def _report(self, diagnostic: Diagnostic) -> None:
        if not self._said:
            self._reports.add(diagnostic)
        self._said = True

    def _span(self, token: Token) -> Span:
        return Span(self._source, token.start_pos or 0, token.end_pos or 0)
