"""Places in a text as the protocol counts them: lines from 0, and columns in units of an encoding."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from attrs import frozen
from lsprotocol import types

from dsl.source import Source, Span

_LINE_END = re.compile(r"\r\n|\n|\r")
_LAST_OF_PLANE = 0xFFFF


@frozen(eq=False)
class Positions:
    """Converts between offsets in a text and positions of the protocol.

    Attributes:
        text: The text.
        encoding: The unit of columns; UTF-16 unless client and server have agreed on another one.
    """

    text: str
    encoding: types.PositionEncodingKind | str = types.PositionEncodingKind.Utf16

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(each.end() for each in _LINE_END.finditer(self.text))]

    @cached_property
    def _ends(self) -> list[int]:
        """The offsets of the line ends themselves."""
        return [*(each.start() for each in _LINE_END.finditer(self.text)), len(self.text)]

    def position(self, offset: int) -> types.Position:
        """Return the position of an offset."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        start = self._starts[line]
        return types.Position(line, self._units(self.text[start : min(offset, self._ends[line])]))

    def offset(self, position: types.Position) -> int:
        """Return the offset of a position; a column beyond the end of its line means the end of the line."""
        if position.line >= len(self._starts):
            return len(self.text)
        start, end = self._starts[position.line], self._ends[position.line]
        line = self.text[start:end]
        if line.isascii() or self.encoding == types.PositionEncodingKind.Utf32:
            return min(start + position.character, end)
        left = position.character
        for at, character in enumerate(line):
            if left <= 0:
                return start + at
            left -= self._units(character)
        return end

    def range(self, start: int, end: int) -> types.Range:
        """Return the range between two offsets.

        Args:
            start: The offset of the first character, from 0.
            end: The offset behind the last one.
        """
        return types.Range(self.position(start), self.position(end))

    def span(self, span: Span) -> types.Range:
        """Return the range of a span of this text."""
        return self.range(span.start, span.end)

    def units(self, start: int, end: int) -> int:
        """Return how many units of the encoding are between two offsets of a line.

        Args:
            start: The offset of the first character, from 0.
            end: The offset behind the last one, on the same line.
        """
        return self._units(self.text[start:end])

    def _units(self, text: str) -> int:
        if text.isascii() or self.encoding == types.PositionEncodingKind.Utf32:
            return len(text)
        if self.encoding == types.PositionEncodingKind.Utf8:
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text) + sum(ord(each) > _LAST_OF_PLANE for each in text)


def span_of(source: Source, positions: Positions, range_: types.Range) -> Span:
    """Return the span of a source at a range of the protocol.

    Args:
        source: The source of the text.
        positions: The places in the text.
        range_: The range, in lines and in units of the editor's encoding.
    """
    return Span(source, positions.offset(range_.start), positions.offset(range_.end))
