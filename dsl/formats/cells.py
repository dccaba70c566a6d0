"""The layout of text in terminal cells: tabs, wide and combining characters, and control characters."""

from __future__ import annotations

import re
import unicodedata

from attrs import frozen

_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")
TAB = "    "
MAX_WIDTH = 120
BEFORE, BEHIND = 400, 1000
"""So many code points before and behind a place are laid out of a line that is longer."""
GAP = "..."


@frozen
class Cells:
    """A line of text, or a part of a long one, in cells."""

    # The text of each column. A wide character has its own cell and an empty one.
    cells: list[str]
    starts: list[int]  # the column of each code point, and one more entry for the end of the line
    first: int = 0  # the index of the first code point that is laid out
    is_cut: bool = False  # whether the line goes on behind the last one

    def column(self, index: int) -> int:
        """Return the column of code point `index`; beyond the end of the line each one is a cell wide."""
        at, last = max(index - self.first, 0), len(self.starts) - 1
        return self.starts[at] if at <= last else self.starts[last] + at - last


def without_color(text: str) -> str:
    """Return a text without the escape sequences of colours."""
    return _COLOR.sub("", text)


def lay_out(text: str, at: int = 0) -> Cells:
    """Lay out a single line of text in cells, or what is around a place in a line that is very long."""
    if len(text) > BEFORE + BEHIND:
        first = min(max(at - BEFORE, 0), len(text))
        part = lay_out(text[first : first + BEFORE + BEHIND])
        return Cells(part.cells, part.starts, first, first + BEFORE + BEHIND < len(text))
    if text.isascii() and text.isprintable():
        return Cells(list(text), list(range(len(text) + 1)))
    cells: list[str] = []
    starts: list[int] = []
    for character in text:
        starts.append(len(cells))
        shown = TAB if character == "\t" else visible(character)
        width = _width(shown) if len(shown) == 1 else len(shown)
        if width == 0 and cells:
            cells[-1] += shown
        elif width == 2:  # noqa: PLR2004 a wide character
            cells += [shown, ""]
        else:
            cells += shown
    starts.append(len(cells))
    return Cells(cells, starts)


def visible(text: str) -> str:
    """Return a text with a visible symbol in place of each control character."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _picture(character) for character in text)


def printable(text: str, *, color: bool = False) -> str:
    """Return a text of any number of lines with a visible symbol for each control sequence.

    Newlines and tabs are kept.
    """
    if text.isprintable():
        return text
    pieces = _COLOR.split(text) if color else [text]
    return "".join(piece if at % 2 else _plain(piece) for at, piece in enumerate(pieces))


def _plain(text: str) -> str:
    return "".join(each if each in "\n\t" or each.isprintable() else _picture(each) for each in text)


def window(width: int, low: int, high: int) -> tuple[int, int]:
    """Choose which columns of a line are shown.

    Returns:
        The first column and the column after the last one. A line that fits is shown whole; if the columns
        that must be visible
        do not fit, their start is shown.
    """
    if width <= MAX_WIDTH:
        return 0, width
    high = min(high, low + MAX_WIDTH * 2 // 3)
    left = max(0, low - (MAX_WIDTH - (high - low)) // 2)
    left = min(left, width - MAX_WIDTH)
    return max(0, left), max(0, left) + MAX_WIDTH


def _picture(character: str) -> str:
    code = ord(character)
    if character == "\xa0":
        return " "
    if code < 0x20:  # noqa: PLR2004 the C0 controls have pictures of their own
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "\N{REPLACEMENT CHARACTER}"  # noqa: PLR2004


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
