"""Cuts the tokens of a text into pieces that can be parsed one by one.

A piece is an item of a block at the top of the text, or a few of them, or something else at the top. It
consists of whole lines, and what is between two items belongs to the second. Where a piece ends does not
depend on what round and square brackets are open, because a bracket that is being typed has no partner yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import define, field, frozen

from grammar.tokens import brackets
from grammar.tokens.braces import starts_item
from grammar.tokens.bracket_tokens import CLOSER, OPENER, indent_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lark import Token

    from dsl import syntax
    from dsl.diagnostics import Diagnostic
    from dsl.source import Span

Role: TypeAlias = Literal["items", "opener", "closer", "end"]

_GOES_ON = frozenset(
    {"EQUALS", "PLUS", "MINUS", "STAR", "SLASH", "DOT", "DOTDOT", "COMPARE", "ARROW", "COMMA", "LPAREN"}
    | {"LBRACKET", "UNKNOWN"}
)
"""The tokens after which an item may go on in the next line."""

_STARTS = frozenset(
    {"NAME", "STRING", "INTEGER", "FLOAT", "QUANTITY", "LPAREN", "LBRACKET", "MINUS", "OPEN_STRING"}
    | {"OTHER_QUOTED", "BAD_NUMBER"}
)
"""The tokens with which an item can start."""

_HEADERS = (["NAME", "LBRACE"], ["NAME", "STRING", "LBRACE"])


@frozen
class Inside:
    """The block around a piece.

    Attributes:
        kind: Its kind.
        indent: How deep its first item is indented, or -1 if it is not known yet.
    """

    kind: str
    indent: int = -1


@frozen
class First:
    """The first token of a piece.

    Attributes:
        indent: How deep it is indented.
        starts_item: Whether an attribute or a block starts with it.
    """

    indent: int
    starts_item: bool


@define(eq=False)
class Piece:
    """A piece of a text. Its places change if something before it does.

    Attributes:
        role: What it has: items, the first or the last line of a block, or what comes after the last item.
        start: The offset at which it starts.
        end: The offset after its last line.
        inside: The block that it is in, or that it is the first or the last line of.
        first: Its first token, or None if it has none.
        indent: How deep the line is indented after which the next piece comes.
        unmatched: The round and square brackets that have no partner in it, in order.
        is_plain: Whether it stays as it is if brackets have to be put in elsewhere in the text.
        lists_names: Whether it has commas outside of brackets, which mean something else in brackets.
        items: What was parsed. For the first line of a block it is the block, without its items.
        found: What is wrong with it.
        tainted: Where nothing more is to be reported; the offsets are from its start.
        distrusted: Whether the boundaries of blocks are a guess.
        tokens: How many tokens it has.
        errors: How many errors there were before those were left out that follow from others.
        allowances: The lints that comments switch off.
        spans: All places in what was parsed and found, or None if they were not looked for yet.
    """

    role: Role
    start: int
    end: int
    inside: Inside | None
    first: First | None = None
    indent: int = 0
    unmatched: tuple[str, ...] = ()
    is_plain: bool = True
    lists_names: bool = False
    items: tuple[syntax.Item, ...] = ()
    found: tuple[Diagnostic, ...] = ()
    tainted: tuple[tuple[int, int], ...] = ()
    distrusted: bool = False
    tokens: int = 0
    errors: int = 0
    allowances: tuple[syntax.Allowance, ...] = ()
    spans: list[Span] | None = None

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong with it."""
        return not (self.found or self.tainted or self.distrusted)


@define
class _Line:
    """A line with its tokens, which are those from `begin` to `end`, and its newline."""

    begin: int
    end: int


def cut(
    tokens: Sequence[Token], start: int, end: int, inside: Inside | None
) -> list[tuple[Piece, list[Token]]] | None:
    """Return the pieces of some lines of a text, each with its tokens, or None if they have another form.

    Args:
        tokens: The tokens of the lines.
        start: Where the lines start.
        end: Where they end.
        inside: The block around the first line.
    """
    return _Cutting(list(tokens), start, end, inside).run()


@define
class _Cutting:
    """Cuts lines into pieces."""

    _tokens: list[Token]
    _start: int
    _end: int
    _inside: Inside | None
    _pieces: list[tuple[Piece, list[Token]]] = field(factory=list, init=False)
    _from: int = field(default=0, init=False)
    _last: int = field(default=0, init=False)

    def run(self) -> list[tuple[Piece, list[Token]]] | None:
        """Return the pieces."""
        level = 0
        for line in _lines(self._tokens):
            kinds = [token.type for token in self._tokens[line.begin : line.end]]
            if level == 0:
                edge = self._is_edge(line, kinds)
                if edge:
                    continue
                if edge is None or not self._begin(line, kinds):
                    return None
            for at, kind in enumerate(kinds):
                level += (kind == "LBRACE") - (kind == "RBRACE")
                if level < 0 or (kind == "RBRACE" and not _is_tame(kinds, at)):
                    return None
            self._last = line.end
        if level:
            return None
        self._close("items")
        begin = self._pieces[-1][0].end if self._pieces else self._start
        if begin < self._end:
            self._pieces.append((Piece("end", begin, self._end, self._inside), self._tokens[self._from :]))
        return self._pieces

    def _is_edge(self, line: _Line, kinds: list[str]) -> bool | None:
        """Whether a line is the first or last of a block; None if it is such a line but has another form."""
        inside, head = self._inside, self._tokens[line.begin]
        if inside is not None and kinds[0] == "RBRACE":
            self._close("items")
            self._last = line.end
            self._inside = None
            self._close("closer", inside)
            return True if len(kinds) == 1 else None
        if inside is not None or kinds not in _HEADERS or indent_of(head) or not self._may_begin(line, kinds):
            return False
        self._close("items")
        self._last = line.end
        self._close("opener", Inside(str(head)))
        self._inside = Inside(str(head))
        return None if "\\" in self._tokens[line.end - 2] else True

    def _begin(self, line: _Line, kinds: list[str]) -> bool:
        """Begin a piece with a line if one can; return whether the line is in a piece."""
        if self._inside is not None and self._inside.indent < 0:
            self._inside = Inside(self._inside.kind, indent_of(self._tokens[line.begin]))
        if self._may_begin(line, kinds):
            self._close("items")
            return True
        return self._last > self._from

    def _may_begin(self, line: _Line, kinds: list[str]) -> bool:
        """Whether a piece can begin with a line."""
        deepest = 0 if self._inside is None else self._inside.indent
        if indent_of(self._tokens[line.begin]) > deepest or kinds[0] not in _STARTS:
            return False
        before = self._tokens[self._last - 1].type if self._last > self._from else ""
        return before not in _GOES_ON or starts_item(self._tokens, line.begin)

    def _close(self, role: Role, inside: Inside | None = None) -> None:
        """End a piece after the last line, unless it would be empty."""
        if self._last <= self._from and role == "items":
            return
        newline = self._tokens[self._last] if self._last < len(self._tokens) else None
        begin = self._pieces[-1][0].end if self._pieces else self._start
        end = self._end if newline is None else newline.end_pos or 0
        own = self._tokens[self._from : self._last + 1]
        piece = Piece(role, begin, end, inside or self._inside)
        at = next(number for number, token in enumerate(own) if token.type != "NEWLINE")
        piece.first = First(indent_of(own[at]), starts_item(own, at))
        if role == "items":
            piece.unmatched = unmatched(own)
            braces = any(token.type in {"LBRACE", "RBRACE"} for token in own)
            piece.is_plain = brackets.all_match(own[at:]) if not piece.unmatched else not braces
            piece.indent = brackets.last_indent(own[at:])
            piece.lists_names = _has_open_comma(own)
        else:
            piece.indent = indent_of(own[self._last - self._from - 1]) + 1
        self._pieces.append((piece, own))
        self._from = self._last + 1


def _is_tame(kinds: list[str], at: int) -> bool:
    """Whether the `}` at index `at` of a line is the first of the line or closes what the line has opened."""
    if at == 0:
        return True
    before = kinds[:at]
    return before.count("LBRACE") > before.count("RBRACE")


def _lines(tokens: list[Token]) -> list[_Line]:
    """Return the lines that have tokens."""
    found = []
    begin = 0
    for at, token in enumerate(tokens):
        if token.type == "NEWLINE":
            if at > begin:
                found.append(_Line(begin, at))
            begin = at + 1
    if len(tokens) > begin:
        found.append(_Line(begin, len(tokens)))
    return found


def _has_open_comma(tokens: list[Token]) -> bool:
    depth = 0
    for token in tokens:
        depth += (token.type in CLOSER) - (token.type in OPENER)
        if depth <= 0 and token.type == "COMMA":
            return True
    return False


def unmatched(tokens: Sequence[Token]) -> tuple[str, ...]:
    """Return the kinds of the brackets without a partner."""
    left: list[str] = []
    for token in tokens:
        kind = token.type
        if kind in CLOSER:
            left.append("LPAREN" if kind == "AGAIN" else kind)
        elif kind in OPENER:
            if left and left[-1] == OPENER[kind]:
                left.pop()
            else:
                left.append(kind)
    return tuple(left)
