"""Balances brackets: first braces, guided by the indentation of lines, then the others, item by item."""

from __future__ import annotations

from collections.abc import Iterator

from lark import Token

from dsl.diagnostics import Diagnostic
from dsl.errors import notation
from dsl.source import Source, Span
from grammar.lark_parser import retyped, span_of
from grammar.reports import Reports

CLOSER: dict[str, str] = {"LPAREN": "RPAREN", "LBRACKET": "RBRACKET", "LBRACE": "RBRACE"}
OPENER = {closer: opener for opener, closer in CLOSER.items()}
CLOSER["AGAIN"] = "RPAREN"  # the second brackets of `LSTM(8)(mask = m)`
BRACKET = {
    "AGAIN": "(",
    "LPAREN": "(",
    "RPAREN": ")",
    "LBRACKET": "[",
    "RBRACKET": "]",
    "LBRACE": "{",
    "RBRACE": "}",
}


DEEPEST = 50


def survey(tokens: list[Token]) -> Token | bool:
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


def follow(opened: list[str], kind: str, opens: str = "") -> None:
    """Keep the kinds of the open brackets, the innermost last; `opens` is what an opening one counts as."""
    if kind in CLOSER:
        opened.append(opens or kind)
    elif kind in OPENER and opened:
        opened.pop()


def made_after(kind: str, before: Token) -> Token:
    """Return a new bracket token that is placed directly after the token `before`."""
    made = retyped(before, kind, BRACKET[kind])
    made.start_pos = made.end_pos = before.end_pos
    return made


def indent_of(token: Token) -> int:
    """Return the number of columns before a token on its line."""
    return (token.column or 1) - 1


class _Mender:
    """Inserts, exchanges and leaves out brackets of some tokens of a text."""

    def __init__(self, tokens: list[Token], source: Source, reports: Reports) -> None:
        self._tokens = tokens
        self._source = source
        self._reports = reports
        self._out: list[Token] = []

    def _span(self, token: Token) -> Span:
        return span_of(self._source, token)

    def _insert_partner(self, opener: Token) -> None:
        """Insert the closing bracket of an open one after the last token, and report that it is missing."""
        kind = CLOSER[opener.type]
        self._report(notation.unclosed(self._span(opener), opener=BRACKET[opener.type], closer=BRACKET[kind]))
        end = len(self._out)
        while self._out[end - 1].type == "NEWLINE":
            end -= 1
        self._out.insert(end, made_after(kind, self._out[end - 1]))

    def _report(self, diagnostic: Diagnostic) -> None:
        raise NotImplementedError


# --- braces -----------------------------------------------------------------------------------------------

_BRACKETS = frozenset({"LPAREN", "LBRACKET"})
_GO_ON = frozenset({"RPAREN", "RBRACKET", "COMMA"})
_BEFORE_BRACE = frozenset({"NAME", "STRING", "EQUALS"})


def starts_item(tokens: list[Token], at: int) -> bool:
    """Whether the token at index `at` starts an attribute, also one of several names, or a block.

    The commas between names may not have been recognized as such, if a bracket before them is not closed.
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


class _Braces(_Mender):
    """Balances the braces of one text.

    An item that is indented no deeper than the line on which a block was opened is not inside that block, and
    a `}` on a line of its own is indented as deep as the block that it closes. A missing brace is inserted or
    a surplus one dropped, and the fault is reported once. After that the boundaries of the blocks are a
    guess, so errors that depend on them are dropped.
    """

    def __init__(self, tokens: list[Token], source: Source, reports: Reports) -> None:
        super().__init__(tokens, source, reports)
        kinds = [token.type for token in tokens]
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
            self._report(notation.stray_brace(self._span(token)))
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
        """End the innermost open block."""
        opener, _ = self._open.pop()
        self._insert_partner(opener)
        self._surplus += 1

    def _drop(self, token: Token, header: int | None) -> None:
        """Leave out a surplus `}`, or insert the missing `{` after the header that it belongs to."""
        self._surplus -= 1
        if header is None:
            self._report(notation.unmatched(self._span(token), closer="}"))
            return
        last = self._out[header]
        first = self._out[header - 1] if header and self._out[header - 1].type == "NAME" else last
        whole = self._span(first).to(self._span(last))
        self._reports.add(notation.missing_brace(whole, closer=self._span(token)))
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
        start = self._source.text.rfind("\n", 0, span.start) + 1
        return Span(self._source, start, self._source.line_end(span.start))


# --- round and square brackets ----------------------------------------------------------------------------

_BRACES = frozenset({"LBRACE", "RBRACE"})
_CONTINUES = frozenset({"COMMA", "EQUALS", "ARROW", "PLUS", "MINUS", "STAR", "SLASH", "LPAREN", "LBRACKET"})
_CONTINUATION = frozenset({"ARROW", "RPAREN", "RBRACKET"})


def balanced(tokens: list[Token], source: Source, reports: Reports) -> list[Token]:
    """Return the tokens with braces closed, and other brackets within their items; report others."""
    tokens = _Braces(tokens, source, reports).run()
    out: list[Token] = []
    for start, end in _items(tokens):
        item = tokens[start:end]
        if survey(item) is not True:
            item = _Item(item, source, reports).mended()
            if end < len(tokens) and tokens[end].type == "LBRACE":
                reports.taint(span_of(source, tokens[end]))
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


class _Item(_Mender):
    """One item whose brackets do not match.

    Its first fault is reported. Further ones are corrected silently, and errors in the meaning of the item
    are dropped, because its structure is a guess.
    """

    def __init__(self, tokens: list[Token], source: Source, reports: Reports) -> None:
        super().__init__(tokens, source, reports)
        kinds = [token.type for token in tokens]
        self._surplus = {closer: kinds.count(closer) - kinds.count(OPENER[closer]) for closer in OPENER}
        self._open: list[Token] = []
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
        """Close the innermost open bracket."""
        opener = self._open.pop()
        self._insert_partner(opener)
        self._surplus[CLOSER[opener.type]] += 1

    def _drop(self, token: Token) -> None:
        self._surplus[token.type] -= 1
        self._report(notation.unmatched(self._span(token), closer=str(token)))

    def _exchange(self, token: Token) -> None:
        """Replace a closing bracket by the one that is needed."""
        opener = self._open.pop()
        right = CLOSER[opener.type]
        self._surplus[token.type] -= 1
        self._surplus[right] += 1
        self._report(
            notation.wrong_closer(
                self._span(token),
                opener=BRACKET[opener.type],
                closer=str(token),
                right=BRACKET[right],
                opened=self._span(opener),
            )
        )
        self._out.append(retyped(token, right, BRACKET[right]))

    def _report(self, diagnostic: Diagnostic) -> None:
        if not self._said:
            self._reports.add(diagnostic)
        self._said = True
