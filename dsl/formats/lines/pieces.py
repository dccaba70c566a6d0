"""The parts of which the rows of a snippet are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from dsl.formats.lines.cells import visible

if TYPE_CHECKING:
    from dsl.source import Span


@frozen
class Piece:
    """Text in a single style.

    Attributes:
        text: The text.
        style: `primary`, `secondary`, `frame` (for line numbers and bars), `title`, or empty for none.
    """

    text: str
    style: str = ""


@frozen(eq=False)
class Mark:
    """A span that is marked.

    Attributes:
        first: The line on which it starts.
        start: The index of its first code point in that line.
        last: The line on which it ends.
        end: The index after its last code point in that line.
        text: The text beside the marker.
        primary: Whether it is the fault itself, and not a label.
    """

    first: int
    start: int
    last: int
    end: int
    text: str
    primary: bool

    @property
    def is_tall(self) -> bool:
        """Whether the span covers several lines."""
        return self.last > self.first

    @property
    def style(self) -> str:
        """The style of the marker and its text."""
        return "primary" if self.primary else "secondary"

    @property
    def sign(self) -> str:
        """The character of which the marker is made."""
        return "^" if self.primary else "-"


def mark(span: Span, text: str, *, primary: bool) -> Mark:
    """Make the mark of a span; a last line of which no character belongs to the span is left out.

    Args:
        span: The span.
        text: What is written at the end of the mark; it may be empty.
        primary: Whether the span is the place of the diagnostic, and not of one of its labels.
    """
    begin, finish = span.begin, span.finish
    last, end = finish.line, finish.column - 1
    if end == 0 and last > begin.line:
        last -= 1
        end = len(span.source.line(last))
    return Mark(begin.line, begin.column - 1, last, end, visible(text), primary)
