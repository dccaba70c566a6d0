"""What is around a place in a text that is being typed: open blocks and brackets, and the item so far.

A syntax tree says little about a place where something is missing, so this looks at the tokens before the
place. No token of the language extends over the end of a line, except for comments of other languages; so
the tokens of a line depend on the line alone, and those of lines that stay as they are need no reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from attrs import frozen

from dsl.schema import ROOT
from grammar import lark_parser
from grammar.reports import MOST_TOKENS
from grammar.tokens.brackets import CLOSER, DEEPEST, OPENER

Shape: TypeAlias = Literal["block", "call", "list", "index", "group"]

_CONTINUING = frozenset({"ARROW", "PLUS", "MINUS", "STAR", "SLASH", "EQUALS", "COMMA", "DOT", "COMPARE"})
"""The tokens after or before which an item may go on in the next line."""

_WORD = frozenset({"NAME", "INTEGER", "FLOAT", "QUANTITY"})


@frozen
class LineToken:
    """A token."""

    kind: str  # its terminal in the grammar, such as `NAME`
    text: str
    start: int  # the offset of its first character, in the text or in its line

    @property
    def end(self) -> int:
        """The offset after its last character."""
        return self.start + len(self.text)


@frozen
class Around:
    """An open bracket before the place."""

    shape: Shape
    name: str  # the kind of a block, the callee of a call, or the name before an index; else nothing
    # The tokens of the item that the bracket is in, before the bracket and what it belongs to.
    item: tuple[LineToken, ...]
    # The tokens after the bracket and before the place, brackets within them included.
    inside: tuple[LineToken, ...]

    @property
    def argument(self) -> str | int:
        """The name of the argument that the place is in, or its number from 0 if it has no name yet."""
        parts = _item(list(self.inside), "LPAREN")  # what comes after the last comma in no brackets
        if len(parts) > 1 and parts[0].kind == "NAME" and parts[1].kind == "EQUALS":
            return parts[0].text
        depths = _depths(self.inside)
        return sum(
            part.kind == "COMMA" and not depth for part, depth in zip(self.inside, depths, strict=True)
        )

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the arguments before the place."""
        named = zip(self.inside, self.inside[1:], strict=False)
        depths = _depths(self.inside)
        return tuple(
            name.text
            for (name, sign), depth in zip(named, depths, strict=False)
            if depth == 0 and name.kind == "NAME" and sign.kind == "EQUALS"
        )


@frozen
class Cursor:
    """What is around a place."""

    around: tuple[Around, ...]  # the open brackets, the innermost first
    # The tokens before the place in the innermost block's current item, or in the current argument.
    item: tuple[LineToken, ...]
    word: str  # the part of a dotted name or number directly before the place, such as `applications.Re`
    # Whether the place is in a comment or a string, in which nothing of the language stands.
    within: Literal["comment", "string"] | None

    @property
    def blocks(self) -> tuple[str, ...]:
        """The kinds of the blocks around the place, the innermost first."""
        return tuple(each.name for each in self.around if each.shape == "block")

    @property
    def call(self) -> Around | None:
        """The innermost call around the place, unless a block is between."""
        for each in self.around:
            if each.shape == "block":
                return None
            if each.shape == "call":
                return each
        return None


@lru_cache(maxsize=20_000)
def parts_of_line(line: str) -> tuple[LineToken, ...]:
    """Return the tokens of a line, comments included and other white space not; offsets are in the line."""
    read = lark_parser.lex(line, most=MOST_TOKENS)
    found = [LineToken(str(token.type), str(token), token.start_pos or 0) for token in read]
    end = found[-1].end if found else 0
    comment = line.find("#", end)
    return (
        tuple(found) if comment < 0 else (*found, LineToken("COMMENT", line[comment:].rstrip("\r"), comment))
    )


@lru_cache(maxsize=20_000)
def _row(line: str) -> tuple[tuple[LineToken, ...], bool]:
    """Return the tokens of a line without its comment, and whether its brackets are closed in the line."""
    row = _without_comment(parts_of_line(line))
    depth = 0
    for part in row:
        depth += (part.kind in CLOSER) - (part.kind in OPENER)
        if depth < 0:
            break
    return row, depth == 0


def cursor_at(text: str, offset: int) -> Cursor:
    """Return what is around a place."""
    start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    column = offset - start
    whole = parts_of_line(text[start : len(text) if line_end < 0 else line_end])
    within = next((found for each in whole if (found := _within(each, column))), None)
    line = list(_without_comment(parts_of_line(text[start:offset])))
    word = _word(line, column)
    levels, openers = _levels(line, _rows_before(text, start))
    around = []
    for number, opener in enumerate(openers):
        shape, name, rest = _head(opener, levels[number + 1])
        outer = openers[number + 1].kind if number + 1 < len(openers) else "LBRACE"
        around.append(Around(shape, name, tuple(_item(rest, outer)), tuple(levels[number])))
    innermost = openers[0].kind if openers else "LBRACE"
    return Cursor(tuple(around), tuple(_item(levels[0], innermost)), word, within)


def _within(part: LineToken, column: int) -> Literal["comment", "string"] | None:
    if part.kind == "COMMENT":
        return "comment" if part.start < column else None
    if part.kind == "STRING":
        return "string" if part.start < column < part.end else None
    return "string" if part.kind in {"OPEN_STRING", "OTHER_QUOTED"} and part.start < column else None


def _without_comment(row: tuple[LineToken, ...]) -> tuple[LineToken, ...]:
    return row[:-1] if row and row[-1].kind == "COMMENT" else row


def _word(line: list[LineToken], column: int) -> str:
    """Take the word that ends at a column off the tokens of its line, and return it."""
    word = ""
    while line and line[-1].end == column and (line[-1].kind in _WORD or line[-1].text == "."):
        if line[-1].kind in _WORD and word[:1] not in {"", "."}:
            break
        word = line[-1].text + word
        column = line.pop().start
    return word


def _rows_before(text: str, start: int) -> Iterator[tuple[tuple[LineToken, ...], bool]]:
    """Yield what `_row` returns of the lines before an offset, the last line first."""
    while start > 0:
        end = start - 1
        start = text.rfind("\n", 0, end) + 1
        yield _row(text[start:end])


def _levels(
    line: list[LineToken], rows: Iterator[tuple[tuple[LineToken, ...], bool]]
) -> tuple[list[list[LineToken]], list[LineToken]]:
    """Return the open brackets, innermost first, and the tokens that each has inside; then those around all.

    Of more brackets than the parser takes, the innermost are returned.

    Of the tokens in a block, those of its last item are among them and those of earlier lines may be missing.
    """
    openers: list[LineToken] = []
    levels: list[list[LineToken]] = []
    backwards: list[LineToken] = []
    depth = 0
    complete = False  # whether what was read of this level begins with the start of an item
    row: Sequence[LineToken] = line
    balanced = False
    while True:
        below = backwards[-1].kind if backwards else ""
        if row and row is not line and depth == 0:
            complete = complete or not (row[-1].kind in _CONTINUING or below in _CONTINUING)
        if not (complete and depth == 0 and balanced):
            if row and row is not line:
                backwards.append(LineToken("NEWLINE", "", 0))
            for part in reversed(row):
                if part.kind in CLOSER and depth == 0:
                    openers.append(part)
                    levels.append(backwards[::-1])
                    backwards, complete = [], False
                    if len(openers) == DEEPEST:
                        return [*levels, []], openers
                    continue
                depth += (part.kind in OPENER) - (part.kind in CLOSER)
                backwards.append(part)
            if openers and depth == 0 and row and row[0].text in ROOT and openers[-1].kind == "LBRACE":
                break
        following = next(rows, None)
        if following is None:
            break
        row, balanced = following
    return [*levels, backwards[::-1]], openers


def _head(bracket: LineToken, before: list[LineToken]) -> tuple[Shape, str, list[LineToken]]:
    """Return what a bracket opens, its name, and the tokens before the name."""
    rest = list(before)
    if bracket.kind == "LBRACE":
        while rest and rest[-1].kind in {"STRING", "OPEN_STRING", "EQUALS"}:
            rest.pop()
        name = rest.pop().text if rest and rest[-1].kind == "NAME" else ""
        if rest and rest[-1].kind == "NAME":  # a label without its quotes
            name = rest.pop().text
        return "block", name, rest
    if bracket.kind == "LBRACKET":
        if rest and rest[-1].kind == "NAME" and rest[-1].end == bracket.start:
            return "index", rest[-1].text, rest[:-1]
        if rest and rest[-1].kind == "RPAREN" and rest[-1].end == bracket.start:
            return "index", "", rest
        return "list", "", rest
    name = ""
    while rest and rest[-1].kind == ("DOT" if name and name[0] != "." else "NAME"):
        name = rest.pop().text + name
    return ("call" if name else "group"), name, rest


def _item(parts: list[LineToken], opener: str) -> list[LineToken]:
    """Return the tokens of the last item of a block, or of the last argument in other brackets."""
    start = 0
    for at, (part, depth) in enumerate(zip(parts, _depths(parts), strict=True)):
        if depth:
            continue
        if part.kind == "COMMA":
            start = at + 1
        elif part.kind == "NEWLINE" and opener == "LBRACE":
            before = parts[at - 1].kind if at else ""
            after = parts[at + 1].kind if at + 1 < len(parts) else ""
            if before not in _CONTINUING and after not in _CONTINUING:
                start = at + 1
    return [part for part in parts[start:] if part.kind != "NEWLINE"]


def _depths(parts: Sequence[LineToken]) -> list[int]:
    """Return for each token in how many brackets it is."""
    depths, depth = [], 0
    for part in parts:
        depth -= part.kind in OPENER
        depths.append(depth)
        depth += part.kind in CLOSER
    return depths
