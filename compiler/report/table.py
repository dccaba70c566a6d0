"""Tables as plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from compiler.report.view import Ink

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
