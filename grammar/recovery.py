"""What to do when a token does not fit: report it, put something broken in its place, and go on.

Brackets match by now (`grammar.layout`), so the end of an argument or of an item can be found however
broken its inside is. The smallest part is given up for which the parser can go on: an argument,
then the call or list around it, then the item.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import lark

from dsl.errors import reading
from dsl.source import Span
from grammar import hints
from grammar.builder import Lost
from grammar.layout import CLOSER, OPENER

if TYPE_CHECKING:
    from lark import Token
    from lark.parsers.lalr_interactive_parser import InteractiveParser

    from dsl.source import Source
    from grammar.reports import Reports

_ENDS = {
    "LPAREN": frozenset({"COMMA", "RPAREN"}),
    "LBRACKET": frozenset({"COMMA", "RBRACKET"}),
    "LBRACE": frozenset({"COMMA", "NEWLINE", "RBRACE"}),
}


class Recovery:
    """Panic mode for one run of the parser over `tokens`."""

    def __init__(
        self, parser: InteractiveParser, tokens: list[Token], source: Source, reports: Reports
    ) -> None:
        self._parser = parser
        self._tokens = tokens
        self._source = source
        self._reports = reports
        self._probe_conf = copy(parser.parser_state.parse_conf)
        self._probe_conf.callbacks = {}

    def recover(self, at: int) -> int:
        """Report that token `at` does not fit and mend the parser's stack; return where to go on."""
        self._report(at)
        for opener, end in self._parts(at):
            token = self._tokens[end] if end < len(self._tokens) else self._end()
            keep = self._fitting(opener, token)
            if keep is not None:
                self._replace(keep, at, end)
                return end
        return len(self._tokens)

    def finish(self) -> Any:
        """Tell the parser that the text is over, and return what it made."""
        state = self._parser.parser_state
        try:
            return state.feed_token(self._end(), is_end=True)
        except lark.UnexpectedToken:
            self.recover(len(self._tokens))
            return state.feed_token(self._end(), is_end=True)

    def _end(self) -> Token:
        last = self._tokens[-1] if self._tokens else None
        end = lark.Token("$END", "", 0, 1, 1, 1, 1, 0)
        if last is not None:
            end.start_pos = end.end_pos = last.end_pos
        return end

    def _report(self, at: int) -> None:
        token = self._tokens[at] if at < len(self._tokens) else self._end()
        before = self._tokens[at - 1] if at else None
        span = Span(self._source, token.start_pos or 0, token.end_pos or 0)
        self._reports.add(
            reading.unexpected_token(
                hints.shown(token),
                span,
                hints.expected(self._parser.accepts()),  # type: ignore[no-untyped-call] # lark has no types here
                hints.advice(before, token),
            )
        )

    # --- where the broken part ends

    def _parts(self, at: int) -> list[tuple[str, int]]:
        """Return the brackets around token `at` with where the part in each ends, from the inside out."""
        parts: list[tuple[str, int]] = []
        around = self._brackets_around(at)
        end = at
        while True:
            opener = around.pop() if around else "LBRACE"
            end = self._end_of_part(end, opener)
            parts.append((opener, end))
            if opener == "LBRACE":
                return parts
            while end < len(self._tokens) and self._tokens[end].type == "COMMA":
                end = self._end_of_part(end + 1, opener)
            end += 1

    def _brackets_around(self, at: int) -> list[str]:
        around: list[str] = []
        for token in self._tokens[:at]:
            if token.type in CLOSER:
                around.append(token.type)
            elif token.type in OPENER:
                around.pop()
        return around

    def _end_of_part(self, at: int, opener: str) -> int:
        ends = _ENDS[opener]
        depth = 0
        while at < len(self._tokens):
            kind = self._tokens[at].type
            if depth == 0 and kind in ends:
                return at
            depth += (kind in CLOSER) - (kind in OPENER)
            at += 1
        return at

    # --- the parser's stack

    def _fitting(self, opener: str, token: Token) -> int | None:
        """Return how much of the stack to keep so that something broken and then `token` fit after it."""
        state = self._parser.parser_state
        for keep in range(len(state.state_stack), 0, -1):
            if self._fits(state.state_stack[:keep], token):
                return keep
            popped = state.value_stack[keep - 2] if keep > 1 else None
            if isinstance(popped, lark.Token) and popped.type == opener:
                return None
        return None

    def _fits(self, states: list[Any], token: Token) -> bool:
        live = self._parser.parser_state
        probe = type(live)(self._probe_conf, live.lexer, states, [None] * (len(states) - 1))
        try:
            probe.feed_token(Lost("BROKEN", ""))
            probe.feed_token(token, is_end=token.type == "$END")
        except lark.UnexpectedToken:
            return False
        return True

    def _replace(self, keep: int, at: int, end: int) -> None:
        """Put something broken in place of the stack above `keep` and of the tokens up to `end`."""
        state = self._parser.parser_state
        popped = [span for value in state.value_stack[keep - 1 :] for span in _offsets(value)]
        lost = [token for token in self._tokens[at:end] if token.type != "NEWLINE"]
        starts = [*popped, *((token.start_pos or 0) for token in lost[:1])]
        first = min(starts, default=self._place(at))
        last = max(self._tokens[end - 1].end_pos or 0 if end else 0, first)
        broken = Lost("BROKEN", "", first, end_pos=last)
        broken.names = self._names(first, end)
        del state.state_stack[keep:]
        del state.value_stack[keep - 1 :]
        state.feed_token(broken)

    def _place(self, at: int) -> int:
        return (self._tokens[at].start_pos if at < len(self._tokens) else self._end().start_pos) or 0

    def _names(self, first: int, end: int) -> tuple[str, ...]:
        names = []
        for token in reversed(self._tokens[:end]):
            if (token.start_pos or 0) < first:
                break
            if token.type == "NAME":
                names.append(str(token))
        return tuple(names)


def _offsets(value: Any) -> list[int]:
    """Return where the parts of a value on the stack start."""
    if isinstance(value, lark.Token):
        return [value.start_pos or 0]
    if isinstance(value, lark.Tree):
        return [offset for child in value.children for offset in _offsets(child)]
    if isinstance(value, (list, tuple)):
        return [offset for child in value for offset in _offsets(child)]
    return [value.span.start]
