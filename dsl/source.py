"""Source texts and the spans that point into them.

The IR keeps offsets only; lines and columns are worked out when a diagnostic is shown.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

from attrs import frozen


@frozen
class Position:
    """A place in a text: `line` and `column` count from 1 (columns in code points), `offset` from 0."""

    line: int
    column: int
    offset: int


@frozen(eq=False)
class Source:
    """A text to be read and the name under which people know it.

    `name` is a path as the user wrote it, `<stdin>`, or `--set clones.count` for a value of the
    command line.
    """

    name: str
    text: str

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        find = self.text.find
        at = find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = find("\n", at + 1)
        return starts

    @property
    def line_count(self) -> int:
        """How many lines the text has; a text without a newline has one."""
        return len(self._line_starts)

    def position(self, offset: int) -> Position:
        """Return line and column of `offset`; the end of the text is a valid place."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1, offset)

    def line(self, number: int) -> str:
        """Return line `number` (from 1) without its newline."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] - 1 if number < self.line_count else len(self.text)
        return self.text[start:end].rstrip("\r")


@frozen
class Span:
    """A stretch of a source: offsets `start` to `end`, the end not included."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters of the stretch."""
        return self.source.text[self.start : self.end]

    @property
    def begin(self) -> Position:
        """Where the stretch starts."""
        return self.source.position(self.start)

    @property
    def finish(self) -> Position:
        """The place after its last character."""
        return self.source.position(self.end)

    def to(self, other: Span) -> Span:
        """Return the stretch from the start of this one to the end of `other`."""
        return Span(self.source, self.start, max(self.end, other.end))
