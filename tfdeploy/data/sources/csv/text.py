"""The text of CSV files: records, cells with their places, and faults in them, without TensorFlow.

TensorFlow's decoder reads the examples. The functions here find the header, count records, and locate faults.
"""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

CHUNK = 1 << 22
LONGEST = 1 << 20
"""The bytes after which the closing quote of a quoted cell is taken to be missing."""
QUOTE = '"'


@frozen
class Row:
    """A record of a file.

    Attributes:
        number: The number of its first line, from 1.
        raw: Its bytes without the line end.
    """

    number: int
    raw: bytes

    @property
    def text(self) -> str:
        """The characters of the record; bytes that are no UTF-8 are replaced."""
        return self.raw.decode("utf-8", "replace")


@frozen
class Cell:
    """A cell of a row.

    Attributes:
        text: Its content without quotes.
        start: Where it begins in the row, quotes included.
        end: Where it ends in the row.
    """

    text: str
    start: int
    end: int


class QuoteError(Exception):
    """Quotes do not form pairs; `start` is the place in the row."""

    def __init__(self, reason: str, start: int) -> None:
        self.reason = reason
        self.start = start
        super().__init__(reason)


@frozen
class Layout:
    """The layout of a file.

    Attributes:
        records: The number of records, the header included.
        blank_lines: Whether there are blank lines.
        quoted_lines: Whether quoted cells contain line breaks.
        hexadecimal: Whether a cell may hold a hexadecimal number, which TensorFlow would read.
    """

    records: int
    blank_lines: bool = False
    quoted_lines: bool = False
    hexadecimal: bool = False


def rows(file: IO[bytes]) -> Iterator[Row]:
    """Yield the records of a file that are not blank; a quoted cell may run over several lines."""
    pending: list[bytes] = []
    first = 0
    quotes = size = 0
    for number, line in enumerate(file, start=1):
        if not pending:
            first = number
            if not line.strip(b"\r\n"):
                continue
        pending.append(line)
        quotes += line.count(b'"')
        size += len(line)
        if quotes % 2 == 0 or size > LONGEST:
            yield Row(first, b"".join(pending).rstrip(b"\r\n"))
            pending, quotes, size = [], 0, 0
    if pending:
        yield Row(first, b"".join(pending).rstrip(b"\r\n"))


def layout(file: IO[bytes]) -> Layout:
    """Count the records of a file; a file without quotes and blank lines is counted in large pieces."""
    lines = 0
    last = b"\n"
    hexadecimal = False
    while chunk := file.read(CHUNK):
        seam = last + chunk[:2]
        rows = seam + chunk if lines else chunk[chunk.find(b"\n") + 1 :]  # without the header
        hexadecimal |= _has_hexadecimal(rows)
        harder = b'"' in chunk or any(sign in text for text in (chunk, seam) for sign in (b"\n\n", b"\n\r"))
        if harder:
            file.seek(0)
            return _careful_layout(file)
        lines += chunk.count(b"\n")
        last = chunk[-1:]
    return Layout(lines + (last != b"\n"), hexadecimal=hexadecimal)


def _has_hexadecimal(data: bytes) -> bool:
    return b"0x" in data or b"0X" in data


def _careful_layout(file: IO[bytes]) -> Layout:
    records = 0
    blank = quoted = inside = hexadecimal = False
    for line in file:
        hexadecimal |= records > 0 and _has_hexadecimal(line)
        if not inside and not line.strip(b"\r\n"):
            blank = True
            continue
        records += not inside
        inside ^= line.count(b'"') % 2 == 1
        quoted |= inside
    return Layout(records, blank, quoted, hexadecimal)


def cells(text: str) -> list[Cell]:
    """Split a row into cells; raises QuoteError.

    A quoted cell begins and ends with a quote, and a quote in it is written twice; any other holds no quotes.
    """
    found: list[Cell] = []
    start = 0
    while True:
        cell = _quoted(text, start) if text.startswith(QUOTE, start) else _plain(text, start)
        found.append(cell)
        if cell.end == len(text):
            return found
        start = cell.end + 1


def _plain(text: str, start: int) -> Cell:
    end = text.find(",", start)
    end = len(text) if end < 0 else end
    quote = text.find(QUOTE, start, end)
    if quote >= 0:
        raise QuoteError("a quote inside a cell that does not begin with one", quote)
    return Cell(text[start:end], start, end)


def _quoted(text: str, start: int) -> Cell:
    at = start + 1
    while True:
        at = text.find(QUOTE, at)
        if at < 0:
            raise QuoteError("a quote that is never closed", start)
        if text.startswith(QUOTE, at + 1):
            at += 2
            continue
        if at + 1 < len(text) and text[at + 1] != ",":
            raise QuoteError("text after the closing quote of a cell", at + 1)
        return Cell(text[start + 1 : at].replace(QUOTE * 2, QUOTE), start, at + 1)
