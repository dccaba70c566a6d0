"""The bars at the left of a snippet that connect the lines of a span."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from dsl.formats.lines.pieces import Mark, Piece

if TYPE_CHECKING:
    from collections.abc import Sequence


@define
class Rails:
    """The state of the bars while the rows of a snippet are drawn from top to bottom.

    Each mark has a lane from its first line to its last; marks that do not overlap share a lane.

    Attributes:
        marks: The marks that cover several lines.
    """

    marks: Sequence[Mark]
    _lanes: list[list[Mark]] = field(factory=list, init=False)
    _active: dict[int, Mark] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        for mark in sorted(self.marks, key=lambda each: (each.first, -each.last)):
            lane = next((lane for lane in self._lanes if lane[-1].last < mark.first), None)
            if lane is None:
                self._lanes.append([mark])
            else:
                lane.append(mark)

    @property
    def width(self) -> int:
        """The number of columns of the bars and the space after them."""
        return len(self._lanes) + 1 if self._lanes else 0

    def beside_text(self, starting: Sequence[Mark]) -> list[Piece]:
        """Return the bars of a row of text.

        Args:
            starting: The marks that start at the first word of the text.
        """
        for mark in starting:
            self._active[self._lane(mark)] = mark
        return self._bars({self._lane(mark) for mark in starting})

    def beside(self) -> list[Piece]:
        """Return the bars of a row without text."""
        return self._bars(frozenset())

    def opening(self, mark: Mark, column: int) -> list[Piece]:
        """Return the row below a line of text on which a mark starts at a column.

        Args:
            mark: A mark of several lines.
            column: The column at which it starts, from 0.
        """
        row = self._turn(mark, column)
        self._active[self._lane(mark)] = mark
        return row

    def closing(self, mark: Mark, column: int) -> list[Piece]:
        """Return the row on which a mark ends at a column, with the text of the mark.

        Args:
            mark: A mark that has been opened.
            column: The column at which it ends, from 0.
        """
        row = self._turn(mark, column)
        del self._active[self._lane(mark)]
        return [*row, Piece(" "), Piece(mark.text, mark.style)] if mark.text else row

    def _lane(self, mark: Mark) -> int:
        return next(at for at, lane in enumerate(self._lanes) if any(each is mark for each in lane))

    def _bars(self, starting: set[int] | frozenset[int]) -> list[Piece]:
        if not self._lanes:
            return []
        return [
            *(self._bar(lane, "/" if lane in starting else "|") for lane in range(len(self._lanes))),
            Piece(" "),
        ]

    def _bar(self, lane: int, sign: str) -> Piece:
        mark = self._active.get(lane)
        return Piece(" ") if mark is None else Piece(sign, mark.style)

    def _turn(self, mark: Mark, column: int) -> list[Piece]:
        lane = self._lane(mark)
        line = "_" * (len(self._lanes) - lane + column) + mark.sign
        return [*(self._bar(each, "|") for each in range(lane + 1)), Piece(line, mark.style)]
