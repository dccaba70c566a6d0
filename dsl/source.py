"""Source texts, and spans that point into them.

Spans hold offsets only. Lines and columns are computed when a diagnostic is shown.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from attrs import define, frozen


@frozen
class Position:
    """A place in a text."""

    line: int  # the line, counted from 1
    column: int  # the column in code points, counted from 1
    offset: int  # the offset in code points, counted from 0


@frozen(eq=False)
class Source:
    """A text and its name."""

    name: str  # a path as the user wrote it, `<stdin>`, or `--set` for a value from the command line
    text: str

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(each.end() for each in re.finditer("\n", self.text))]

    @property
    def line_count(self) -> int:
        """The number of lines; a text without a newline has one."""
        return len(self._line_starts)

    def position(self, offset: int) -> Position:
        """Return the line and column of an offset; the end of the text is a valid offset."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1, offset)

    def line_end(self, offset: int) -> int:
        """Return the offset at which the line of an offset ends, before its newline."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end

    def line(self, number: int) -> str:
        """Return a line without its newline; lines are counted from 1."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] - 1 if number < self.line_count else len(self.text)
        return self.text[start:end].rstrip("\r")


@frozen(slots=False, eq=False)
class Excerpt(Source):
    """One line of a large data file. Its positions are those of the whole file."""

    number: int = 1  # the number of the line in the file, counted from 1

    def position(self, offset: int) -> Position:
        """Return line and column of `offset`, an offset into the line."""
        offset = min(max(offset, 0), len(self.text))
        return Position(self.number, offset + 1, offset)

    def line(self, number: int) -> str:
        """Return the line if `number` is its own, else an empty one."""
        return self.text if number == self.number else ""

    @cached_property
    def line_count(self) -> int:
        """The number of the last line that can be shown."""
        return self.number


@define(unsafe_hash=True)
class Span:
    """A part of a source text, from `start` to before `end`.

    Nothing changes a span; it is not frozen since reading a text makes thousands.
    """

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters of the span."""
        return self.source.text[self.start : self.end]

    @property
    def begin(self) -> Position:
        """The position of the first character."""
        return self.source.position(self.start)

    @property
    def finish(self) -> Position:
        """The position after the last character."""
        return self.source.position(self.end)

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, max(self.end, other.end))
