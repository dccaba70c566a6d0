"""Brackets and newlines, before the parser: what it gets is balanced, and every newline in it ends an item.

Where the brackets do not match, the lines tell what was meant: an item that starts no deeper than the line
on which a bracket was opened cannot be inside that bracket. The missing one is put in, the surplus one
is dropped, and both are reported once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lark import Token

from dsl.errors import reading
from dsl.source import Span

if TYPE_CHECKING:
    from dsl.source import Source
    from grammar.reports import Reports

DEEPEST = 50
CLOSER = {"LPAREN": "RPAREN", "LBRACKET": "RBRACKET", "LBRACE": "RBRACE"}
OPENER = {closer: opener for opener, closer in CLOSER.items()}
SIGN = {"LPAREN": "(", "RPAREN": ")", "LBRACKET": "[", "RBRACKET": "]", "LBRACE": "{", "RBRACE": "}"}


def arrange(tokens: list[Token], source: Source, reports: Reports) -> list[Token] | None:
    """Balance the brackets and drop the newlines that end nothing; None where they nest too deeply."""
    match _survey(tokens):
        case Token() as deepest:
            reports.add(reading.nested_too_deeply(DEEPEST, _span(source, deepest)))
            return None
        case False:
            tokens = _Balancer(tokens, source, reports).run()
    return _items(tokens)


def _survey(tokens: list[Token]) -> Token | bool:
    """Whether every bracket has its match; the bracket itself where it is nested too deeply."""
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


def _span(source: Source, token: Token) -> Span:
    return Span(source, token.start_pos or 0, token.end_pos or 0)


class _Balancer:
    """Goes over the tokens once and puts in or drops brackets."""

    def __init__(self, tokens: list[Token], source: Source, reports: Reports) -> None:
        self._tokens = tokens
        self._source = source
        self._reports = reports
        self._out: list[Token] = []
        self._open: list[tuple[Token, int]] = []
        self._indent = 0

    def run(self) -> list[Token]:
        """Return balanced tokens."""
        starts_line = True
        for at, token in enumerate(self._tokens):
            if starts_line and token.type != "NEWLINE":
                self._indent = (token.column or 1) - 1
                self._close_left_behind(at)
            starts_line = token.type == "NEWLINE"
            if token.type in CLOSER:
                self._open.append((token, self._indent))
                self._out.append(token)
            elif token.type in OPENER:
                self._closing(at, token)
            else:
                self._out.append(token)
        while self._open:
            self._close_missing()
        return self._out

    def _close_left_behind(self, at: int) -> None:
        """Close the brackets that the line starting at token `at` shows to be over."""
        token = self._tokens[at]
        while self._open:
            opener, indent = self._open[-1]
            if token.type in OPENER:
                over = token.type == "RBRACE" and (
                    self._indent < indent or (opener.type != "LBRACE" and self._indent <= indent)
                )
            else:
                over = self._indent <= indent and self._starts_item(at) and not self._continues()
            if not over:
                return
            self._close_missing()

    def _starts_item(self, at: int) -> bool:
        kinds = [token.type for token in self._tokens[at : at + 3]] + [""] * 2
        return kinds[0] == "NAME" and (
            kinds[1] in {"EQUALS", "LBRACE"} or (kinds[1] in {"STRING", "NAME"} and kinds[2] == "LBRACE")
        )

    def _continues(self) -> bool:
        """Whether the line before ended in something that asks for more, inside round or square brackets."""
        last = next((token.type for token in reversed(self._out) if token.type != "NEWLINE"), "")
        return self._open[-1][0].type != "LBRACE" and last == "COMMA"

    def _close_missing(self) -> None:
        """Put in the closing bracket of the innermost open one, after the last token."""
        opener, _ = self._open.pop()
        self._reports.add(reading.unclosed(SIGN[opener.type], _span(self._source, opener)))
        end = len(self._out)
        while self._out[end - 1].type == "NEWLINE":
            end -= 1
        self._out.insert(end, self._made(CLOSER[opener.type], self._out[end - 1]))

    @staticmethod
    def _made(kind: str, after: Token) -> Token:
        made = Token.new_borrow_pos(kind, SIGN[kind], after)
        made.start_pos = made.end_pos = after.end_pos
        return made

    def _closing(self, at: int, token: Token) -> None:
        wanted = OPENER[token.type]
        kinds = [opener.type for opener, _ in self._open]
        if kinds and kinds[-1] == wanted:
            self._open.pop()
            self._out.append(token)
        elif wanted in self._reachable(kinds, token.type):
            while self._open[-1][0].type != wanted:
                self._close_missing()
            self._open.pop()
            self._out.append(token)
        elif kinds and kinds[-1] != "LBRACE" and not self._closed_later(at, kinds[-1]):
            opener, _ = self._open.pop()
            right = CLOSER[opener.type]
            span = _span(self._source, token)
            self._reports.add(
                reading.wrong_closer(
                    SIGN[opener.type], str(token), SIGN[right], span, _span(self._source, opener)
                )
            )
            self._out.append(Token.new_borrow_pos(right, SIGN[right], token))
        else:
            self._drop(token)

    @staticmethod
    def _reachable(kinds: list[str], closer: str) -> list[str]:
        """Return the kinds of the open brackets that `closer` may close: only a brace reaches over braces."""
        if closer == "RBRACE" or "LBRACE" not in kinds:
            return kinds
        last = len(kinds) - 1 - kinds[::-1].index("LBRACE")
        return kinds[last + 1 :]

    def _closed_later(self, at: int, opener: str) -> bool:
        """Whether the right bracket for `opener` comes before the line ends."""
        depth = 0
        for token in self._tokens[at + 1 :]:
            if token.type == "NEWLINE":
                return False
            depth += (token.type == opener) - (token.type == CLOSER[opener])
            if depth < 0:
                return True
        return False

    def _drop(self, token: Token) -> None:
        span = _span(self._source, token)
        header = self._header_without_brace() if token.type == "RBRACE" else None
        if header is None:
            self._reports.add(reading.unmatched(str(token), span))
            return
        last = self._out[header]
        self._reports.add(reading.missing_brace(_span(self._source, last), span))
        self._out.insert(header + 1, self._made("LBRACE", last))
        self._out.append(token)

    def _header_without_brace(self) -> int | None:
        """Find the last line outside all brackets that looks like a block's header without its brace."""
        depth = 0
        for at in range(len(self._out) - 1, -1, -1):
            kind = self._out[at].type
            depth += (kind in OPENER) - (kind in CLOSER)
            if depth < 0:
                return None
            if depth or kind != "NEWLINE" or not at:
                continue
            name = at - 1 - (self._out[at - 1].type == "STRING")
            starts = name == 0 or self._out[name - 1].type == "NEWLINE"
            if name >= 0 and self._out[name].type == "NAME" and starts:
                return at - 1
        return None


def _items(tokens: list[Token]) -> list[Token]:
    """Drop the newlines that end no item: inside brackets, before `->`, at either end of a block, doubled."""
    out: list[Token] = []
    open_: list[str] = []
    pending: Token | None = None
    for token in tokens:
        kind = token.type
        if kind == "NEWLINE":
            if pending is None and (not open_ or open_[-1] == "LBRACE"):
                pending = token
            continue
        if pending is not None:
            if out and out[-1].type not in {"LBRACE", "COMMA"} and kind not in {"RBRACE", "ARROW", "COMMA"}:
                out.append(pending)
            pending = None
        if kind in CLOSER:
            open_.append(kind)
        elif kind in OPENER:
            open_.pop()
        out.append(token)
    return out
