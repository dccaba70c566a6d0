"""Text as the cells of a terminal: tabs, wide and combining characters, no control characters."""

from __future__ import annotations

import re
import unicodedata

from attrs import frozen

_COLOR = re.compile(r"(\x1b\[[0-9;]*m)")
TAB = "    "
MAX_WIDTH = 120
GAP = "..."


@frozen
class Cells:
    """A line of text laid out; `cells[i]` is what stands in column i.

    A wide character takes its cell and an empty one. `starts[k]` is the column of code point k, with one
    more entry for the end of the line.
    """

    cells: list[str]
    starts: list[int]

    def column(self, index: int) -> int:
        """Return the column of code point `index`; places beyond the end of the line are one cell each."""
        last = len(self.starts) - 1
        return self.starts[index] if index <= last else self.starts[last] + index - last


def lay_out(text: str) -> Cells:
    """Lay `text`, one line, out in cells."""
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
    """Return `text` with a picture in place of each character that would steer a terminal."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _picture(character) for character in text)


def printable(text: str, *, color: bool = False) -> str:
    """Return text of any number of lines with a picture for whatever would steer a terminal.

    Newlines and tabs stay, and with `color` so do the sequences that choose one.
    """
    if text.isprintable():
        return text
    pieces = _COLOR.split(text) if color else [text]
    return "".join(piece if at % 2 else _plain(piece) for at, piece in enumerate(pieces))


def _plain(text: str) -> str:
    return "".join(each if each in "\n\t" or each.isprintable() else _picture(each) for each in text)


def window(width: int, low: int, high: int) -> tuple[int, int]:
    """Choose the columns of a line `width` wide that are shown, so that `low` to `high` is among them.

    A line that fits is shown whole; of a stretch that does not fit, the start is shown.
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
