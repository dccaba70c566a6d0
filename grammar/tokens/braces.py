"""Balances braces, guided by the indentation of lines.

An item that is indented no deeper than the line on which a block was opened is not inside that block, and a
`}` on a line of its own is indented as deep as the block that it closes. A missing brace is inserted or a
surplus one dropped, and the fault is reported once. After that the boundaries of the blocks are a guess, so
errors that depend on them are dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.errors import reading
from dsl.source import Span
from grammar.tokens.bracket_tokens import indent_of, made_after

if TYPE_CHECKING:
    from lark import Token

    from dsl.diagnostics import Diagnostic
    from dsl.source import Source
    from grammar.reports import Reports

_BRACKETS = frozenset({"LPAREN", "LBRACKET"})
_GO_ON = frozenset({"RPAREN", "RBRACKET", "COMMA"})
_BEFORE_BRACE = frozenset({"NAME", "STRING", "EQUALS"})


def balanced(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Return the tokens with every brace closed, and report braces that do not match.

    Args:
        tokens: The tokens.
        source: The text that they are of.
        reports: The reports of the text.
    """
    return _Balancer(tokens, source, reports).run()


def starts_item(tokens: list[Token], at: int) -> bool:
    """Whether the token at index `at` starts an attribute, also one of several names, or a block.

    The commas between names may not have been recognized as such, if a bracket before them is not closed.

    Args:
        tokens: The tokens of the text.
        at: The index of the token.
    """
    last = at
    while [token.type for token in tokens[last + 1 : last + 3]] in (["COMMA", "NAME"], ["ALSO", "NAME"]):
        last += 2
    kinds = [tokens[at].type, *(token.type for token in tokens[last + 1 : last + 3]), "", ""]
    if last > at:
        return kinds[:2] == ["NAME", "EQUALS"]
    return kinds[0] == "NAME" and (
        kinds[1] in {"EQUALS", "LBRACE"} or (kinds[1] in {"STRING", "NAME"} and kinds[2] == "LBRACE")
    )


class _Balancer:
    """Balances the braces of one text."""

    def __init__(self, tokens: list[Token], source: Source, reports: Reports) -> None:
        kinds = [token.type for token in tokens]
        self._tokens = tokens
        self._source = source
        self._reports = reports
        self._out: list[Token] = []
        self._open: list[tuple[Token, int]] = []
        self._depth = 0
        self._item_indent = 0
        self._surplus = kinds.count("RBRACE") - kinds.count("LBRACE")

    def run(self) -> list[Token]:
        """Return the tokens with matching braces."""
        indent = 0
        starts_line = True
        for at, token in enumerate(self._tokens):
            if starts_line and token.type != "NEWLINE":
                indent = indent_of(token)
                if starts_item(self._tokens, at) and (not self._depth or indent <= self._item_indent):
                    self._depth = 0
                    self._close_down_to(indent)
                if not self._depth:
                    self._item_indent = indent
            if token.type == "LBRACE":
                self._opening(at, token, indent)
            elif token.type == "RBRACE":
                self._closing(at, indent, starts_line=starts_line)
            else:
                self._depth += (token.type in _BRACKETS) - (token.type in {"RPAREN", "RBRACKET"})
                self._out.append(token)
            starts_line = token.type == "NEWLINE"
        while self._open:
            self._close()
        return self._out

    def _opening(self, at: int, token: Token, indent: int) -> None:
        before = self._tokens[at - 1] if at else token
        if self._surplus < 0 and (before.type not in _BEFORE_BRACE or self._depth > 0):
            self._report(reading.stray_brace(self._span(token)))
            following = self._tokens[at + 1] if at + 1 < len(self._tokens) else token
            self._reports.taint(self._span(before).to(self._span(following)))
            self._surplus += 1
            return
        self._open.append((token, indent))
        self._out.append(token)

    def _closing(self, at: int, indent: int, *, starts_line: bool) -> None:
        token = self._tokens[at]
        if starts_line:
            while self._surplus < 0 and len(self._open) > 1 and self._open[-1][1] > indent:
                self._close()
        elif self._is_intruder(at):
            self._drop(token, None)
            return
        if self._surplus > 0 and (not self._open or (starts_line and self._open[-1][1] < indent)):
            self._drop(token, self._header(indent))
            return
        if not self._open:
            self._drop(token, None)
            return
        self._open.pop()
        self._out.append(token)

    def _is_intruder(self, at: int) -> bool:
        """Whether a `}` inside a line closes nothing, or comes before the partner of another bracket."""
        if self._open and self._open[-1][0].line == self._tokens[at].line:
            return False
        following = self._tokens[at + 1].type if at + 1 < len(self._tokens) else ""
        return self._surplus > 0 or (self._depth > 0 and following in _GO_ON)

    def _close_down_to(self, indent: int) -> None:
        """Close the blocks that must have ended before an item with this indentation."""
        while self._surplus < 0 and self._open and indent <= self._open[-1][1]:
            self._close()

    def _close(self) -> None:
        """Insert the closing brace of the innermost open block after the last token."""
        opener, _ = self._open.pop()
        self._report(reading.unclosed(self._span(opener), opener="{", closer="}"))
        self._surplus += 1
        end = len(self._out)
        while self._out[end - 1].type == "NEWLINE":
            end -= 1
        self._out.insert(end, made_after("RBRACE", self._out[end - 1]))

    def _drop(self, token: Token, header: int | None) -> None:
        """Leave out a surplus `}`, or insert the missing `{` after the header that it belongs to."""
        self._surplus -= 1
        if header is None:
            self._report(reading.unmatched(self._span(token), closer="}"))
            return
        last = self._out[header]
        first = self._out[header - 1] if header and self._out[header - 1].type == "NAME" else last
        whole = self._span(first).to(self._span(last))
        self._reports.add(reading.missing_brace(whole, closer=self._span(token)))
        self._reports.taint(whole)
        self._out.insert(header + 1, made_after("LBRACE", last))
        self._out.append(token)

    def _header(self, indent: int) -> int | None:
        """Find the last line with this indentation that looks like a header of a block without its brace."""
        depth = 0
        for at in range(len(self._out) - 1, -1, -1):
            kind = self._out[at].type
            depth += (kind == "LBRACE") - (kind == "RBRACE")
            if depth > 0:
                return None
            if depth or kind != "NEWLINE" or not at:
                continue
            name = at - 1
            if self._out[name].type in {"STRING", "NAME"} and name and self._out[name - 1].type == "NAME":
                name -= 1
            starts = name == 0 or self._out[name - 1].type == "NEWLINE"
            if self._out[name].type == "NAME" and starts and indent_of(self._out[name]) == indent:
                return at - 1
        return None

    def _report(self, diagnostic: Diagnostic) -> None:
        self._reports.distrust(self._source)
        line = diagnostic.span and self._line(diagnostic.span)
        if line is None or not self._reports.is_tainted(line):
            self._reports.add(diagnostic)

    def _line(self, span: Span) -> Span:
        """Return the whole line on which `span` starts; an unterminated string may contain a brace."""
        text = self._source.text
        end = text.find("\n", span.start)
        return Span(self._source, text.rfind("\n", 0, span.start) + 1, len(text) if end < 0 else end)

    def _span(self, token: Token) -> Span:
        return Span(self._source, token.start_pos or 0, token.end_pos or 0)
