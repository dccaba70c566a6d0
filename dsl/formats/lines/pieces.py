"""What the rows of a snippet are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from dsl.formats.lines.cells import visible

if TYPE_CHECKING:
    from dsl.source import Span


@frozen
class Piece:
    """Characters in one style: `primary`, `secondary`, `frame` (numbers and bars), `title`, or none."""

    text: str
    style: str = ""


@frozen(eq=False)
class Mark:
    """A span to be marked, from code point `start` of line `first` to before `end` of line `last`."""

    first: int
    start: int
    last: int
    end: int
    text: str
    primary: bool

    @property
    def is_tall(self) -> bool:
        """Whether it takes several lines."""
        return self.last > self.first

    @property
    def style(self) -> str:
        """The style of its marker and text."""
        return "primary" if self.primary else "secondary"

    @property
    def sign(self) -> str:
        """The character that its marker is made of."""
        return "^" if self.primary else "-"


def mark(span: Span, text: str, *, primary: bool) -> Mark:
    """Make the mark of `span`; a last line of which nothing is taken is left out."""
    begin, finish = span.begin, span.finish
    last, end = finish.line, finish.column - 1
    if end == 0 and last > begin.line:
        last -= 1
        end = len(span.source.line(last))
    return Mark(begin.line, begin.column - 1, last, end, visible(text), primary)
