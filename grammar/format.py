"""The formatter. It writes the tokens and comments of a text in a uniform style and changes none of them.

Most line breaks stay where they are. Indentation, spaces and runs of empty lines change, and blocks on a
single line that is too long are spread over several lines.
"""

from __future__ import annotations

from attrs import define, field, frozen
from lark import Token

from dsl.diagnostics import Diagnostic, SpecError
from dsl.source import Source
from grammar import files, lark_parser
from grammar.parsing.parser import parse
from grammar.reports import Reports
from grammar.tokens import layout
from grammar.tokens.layout import INDEXED

WIDTH = 100
"""The longest line. A block on a single line that is longer is spread over several lines."""

INDENT = 2

_OPENERS = {"LPAREN", "LBRACKET", "LBRACE", "AGAIN"}
_CLOSERS = {"RPAREN", "RBRACKET", "RBRACE"}
_OPERATORS = {"ARROW", "PLUS", "MINUS", "STAR", "SLASH", "COMPARE"}
_TIGHT = {"DOT", "DOTDOT", "COLON"}
_BEFORE_OPERAND = _OPERATORS | _OPENERS | {"COMMA", "EQUALS", "DOTDOT", "COLON"}


def format_text(source: Source) -> str:
    """Return the text of a spec in the uniform style; raises SpecError if it cannot be parsed."""
    reports = Reports()
    parse(source, reports)
    if reports.has_errors:
        raise SpecError(sorted(reports.found, key=_place))
    before = _tokens(source.text)
    text = _Printer(_without_white(before)).text()
    if _meaning(before, source) != _meaning(_tokens(text), source):
        raise AssertionError("formatting would have changed more than white space")
    return text


def _place(diagnostic: Diagnostic) -> tuple[int, str]:
    return (-1 if diagnostic.span is None else diagnostic.span.start, diagnostic.code)


def source_of(path: str, data: bytes | None = None) -> Source:
    """Return the text of a file."""
    given = files.contents(path) if data is None else data
    text = files.decoded(path, given) if isinstance(given, bytes) else given
    if not isinstance(text, str):
        raise SpecError([text])
    return Source(path, text)


def _tokens(text: str) -> list[Token]:
    """Return all tokens of a text, white space and comments included."""
    return layout.marked(lark_parser.lex(text, everything=True))


def _meaning(tokens: list[Token], source: Source) -> tuple[list[tuple[str, str]], list[str]]:
    """Return what formatting must not change: the tokens that the parser gets, and the comments."""
    read = [token for token in tokens if token.type not in {"WHITE", "COMMENT"}]
    arranged = layout.arrange(read, source, Reports()) or []
    comments = [token.rstrip() for token in tokens if token.type == "COMMENT"]
    return [(token.type, str(token)) for token in arranged], comments


@frozen
class _Token:
    """A token that is not white space; `breaks` is the number of newlines before it, at most two."""

    kind: str
    text: str
    breaks: int


def _without_white(tokens: list[Token]) -> list[_Token]:
    kept = []
    breaks = 0
    for token in tokens:
        if token.type == "NEWLINE":
            breaks += 1
        elif token.type != "WHITE":
            kept.append(_Token(token.type, token.rstrip(), min(breaks, 2)))
            breaks = 0
    return kept


@frozen
class _Open:
    """An open bracket."""

    kind: str
    indent: int  # the indentation of the line that it is on
    inside: int  # the indentation of the lines inside it
    is_index: bool
    is_tall: bool
    # Whether every item inside it has a line of its own, because one line would be too long.
    is_too_long: bool


@define
class _Line:
    """A line of the result; `block` is the first block that is opened and closed on it."""

    indent: int
    width: int = field(init=False)
    block: int | None = None
    _parts: list[str] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.width = self.indent

    def add(self, text: str) -> None:
        """Put `text` at the end of the line."""
        self._parts.append(text)
        self.width += len(text)

    @property
    def text(self) -> str:
        """The line with its newline."""
        return f"{' ' * self.indent if self._parts else ''}{''.join(self._parts)}\n"


@define
class _Printer:
    """Writes tokens as lines. Blocks on a line that is too long are spread over several, outermost first."""

    tokens: list[_Token]
    _tall: set[int] = field(factory=set, init=False)
    _too_long: set[int] = field(factory=set, init=False)
    _open: list[_Open] = field(factory=list, init=False)
    _lines: list[_Line] = field(factory=list, init=False)

    def text(self) -> str:
        """Return the whole text, each line with its newline."""
        self._find_tall()
        while True:
            self._print()
            blocks = {line.block for line in self._lines if line.block is not None and line.width > WIDTH}
            if not blocks:
                return "".join(line.text for line in self._lines)
            self._too_long |= blocks

    def _find_tall(self) -> None:
        """Find the blocks with a newline between their braces; they keep lines of their own."""
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if token.breaks:
                self._tall.update(opened)
            if token.kind in _OPENERS:
                opened.append(at)
            elif token.kind in _CLOSERS:
                opened.pop()

    def _print(self) -> None:
        self._open, self._lines = [], [_Line(0)] if self.tokens else []
        for at, token in enumerate(self.tokens):
            breaks = self._breaks(at) if at else 0
            if breaks > 1:
                self._lines.append(_Line(0))
            if breaks:
                self._lines.append(_Line(self._indent(at)))
            elif at and self._spaced(at):
                self._lines[-1].add("  " if token.kind == "COMMENT" else " ")
            self._lines[-1].add(token.text)
            self._track(at, token)

    def _track(self, at: int, token: _Token) -> None:
        line = self._lines[-1]
        if token.kind in _OPENERS:
            is_index = token.kind == "LBRACKET" and at > 0 and self.tokens[at - 1].kind in INDEXED
            is_too_long = at in self._too_long
            is_tall = is_too_long or at in self._tall
            # What goes on below the first argument stands deeper than steps of a flow, which may follow.
            follows_on_line = at + 1 < len(self.tokens) and self.tokens[at + 1].breaks == 0
            hangs = token.kind != "LBRACE" and follows_on_line
            inside = line.indent + (2 * INDENT if hangs else INDENT)
            self._open.append(_Open(token.kind, line.indent, inside, is_index, is_tall, is_too_long))
            if token.kind == "LBRACE" and not is_tall and line.block is None:
                line.block = at
        elif token.kind in _CLOSERS:
            self._open.pop()

    def _breaks(self, at: int) -> int:
        """Return how many newlines come before token `at`: none, one, or two for an empty line."""
        before, token = self.tokens[at - 1], self.tokens[at]
        inside = self._open[-1] if self._open else None
        wanted = token.breaks
        if token.kind in {"ARROW", "COMMA"} or token.kind in _CLOSERS or before.kind in _OPENERS:
            wanted = min(wanted, 1)
        if before.kind == "COMMENT":
            return max(wanted, 1)
        if inside is None or inside.kind == "LBRACE":
            return self._block_breaks(before, token, inside, wanted)
        if token.kind == "COMMENT":
            return min(wanted, 1)
        if inside.is_index:
            return 0
        around = {"COMMA"} | _OPERATORS
        may = token.kind in _OPERATORS | _CLOSERS or before.kind in around | _OPENERS
        return min(wanted, 1) if may and not self._is_sign(at - 1) else 0

    def _block_breaks(self, before: _Token, token: _Token, inside: _Open | None, wanted: int) -> int:
        if token.kind == "COMMA" or (before.kind, token.kind) == ("LBRACE", "RBRACE"):
            return 0
        if inside is None or (before.kind, token.kind) == ("LBRACE", "COMMENT"):
            return wanted
        if token.kind == "RBRACE" or before.kind == "LBRACE":
            return int(inside.is_tall)
        return max(wanted, 1) if before.kind == "COMMA" and inside.is_too_long else wanted

    def _indent(self, at: int) -> int:
        token = self.tokens[at]
        if token.kind in _CLOSERS:
            return self._open[-1].indent
        indent = self._open[-1].inside if self._open else 0
        while self.tokens[at].kind == "COMMENT" and at + 1 < len(self.tokens):
            at += 1
        return indent + INDENT if self.tokens[at].kind == "ARROW" else indent

    def _spaced(self, at: int) -> bool:
        """Whether a space separates token `at` from the one before it on the same line."""
        before, kind = self.tokens[at - 1].kind, self.tokens[at].kind
        of_call = kind == "LPAREN" and before in {"NAME", "RBRACKET"}
        if of_call or kind == "AGAIN" or (kind == "LBRACKET" and before in INDEXED):
            return False  # of a call, of an index
        if kind == "COLON" and before == "COMMA":
            return True
        after_space = before not in {"LPAREN", "LBRACKET", "AGAIN"} | _TIGHT and not self._is_sign(at - 1)
        before_space = kind not in {"COMMA", "ALSO", "RPAREN", "RBRACKET"} | _TIGHT
        is_empty = before == "LBRACE" and kind == "RBRACE"
        return kind == "COMMENT" or (after_space and before_space and not is_empty)

    def _is_sign(self, at: int) -> bool:
        """Whether token `at` is the minus of a negative value."""
        if self.tokens[at].kind != "MINUS":
            return False
        at -= 1
        while at >= 0 and self.tokens[at].kind == "COMMENT":
            at -= 1
        return at < 0 or self.tokens[at].kind in _BEFORE_OPERAND
