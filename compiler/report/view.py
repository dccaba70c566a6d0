"""What is shown of a placement map, in which width and colours, and tables as plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Literal, TypeVar

from attrs import frozen

from compiler.kinds.kind_map import AnyMap
from compiler.mapping.records import Counted, Sought

_CODES = {"bold": "1", "dim": "2", "red": "31", "yellow": "33", "cyan": "36"}

Style = Literal["bold", "dim", "red", "yellow", "cyan"]


@frozen
class Ink:
    """Styles text."""

    color: bool = False

    def __call__(self, text: str, style: Style) -> str:
        """Return `text` in a style."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.color and text else text


@frozen
class View:
    """What is shown of a placement map, and how."""

    depth: int | None = None  # the levels of scopes, or None for as many as fit a screen
    glob: str | None = None  # chooses the ops that are shown, or None for all
    only_misplaced: bool = False
    every_clone: bool = False
    width: int = 80
    color: bool = False

    @property
    def ink(self) -> Ink:
        """The styles of text."""
        return Ink(self.color)

    def chosen(self, placement: AnyMap, levels: int | None = None) -> Iterator[Counted]:
        """Yield the ops of a map that are shown, those that are alike together.

        The glob matches names with or without the scope of a clone. Ops that have not run are not misplaced.

        Args:
            levels: The levels of scopes that matter; ops may come together that differ below them.
        """
        if levels is not None and self.glob is None and not self.only_misplaced:
            return placement.by_scope(levels)
        sought = None if self.glob is None else Sought.of_glob(self.glob, matcher(self.glob))
        return placement.counted(sought, misplaced=self.only_misplaced)

    def nothing(self) -> str:
        """Return the message that there is no op to show."""
        kind = "misplaced op" if self.only_misplaced else "op"
        return f"no {kind} matches {self.glob}" if self.glob is not None else f"no {kind}"


def matcher(glob: str) -> Callable[[str], bool]:
    """Return a test of names: a glob matches a whole name, or the whole name of a scope around it."""
    glob = glob.removesuffix("/")
    pattern = re.compile(f"(?:{translate(glob)})|(?:{translate(f'{glob}/*')})")
    return lambda name: pattern.match(name) is not None


# --- tables as plain text ---------------------------------------------------------------------------------


N = TypeVar("N", int, float)

GAP = "  "
CUT = "..."


def table(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return the lines of a table: the first `left` columns flush left, the others flush right."""
    widths = column_widths(rows)
    return [
        GAP.join(
            cell.ljust(width) if at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def headed(rows: Sequence[Sequence[str]], ink: Ink, *, left: int = 1) -> list[str]:
    """Return the lines of a table whose first row is its head."""
    head, *rest = table(rows, left=left)
    return [ink(head, "bold"), *rest]


def column_widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of each column."""
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def signed(change: N, text: Callable[[N], str]) -> str:
    """Return a difference with its sign."""
    return f"{'+' if change > 0 else '-'}{text(abs(change))}"


def width_of(rows: Iterable[Sequence[str]]) -> int:
    """Return the width of the table in characters."""
    widths = column_widths(rows)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def shorten(text: str, width: int) -> str:
    """Remove the middle of a text that is wider than `width`, because the ends of a name say the most."""
    if len(text) <= width:
        return text
    room = max(width - len(CUT), 2)
    return text[: room - room // 2] + CUT + text[len(text) - room // 2 :]
