"""CSV files without TensorFlow: records, cells with their places, and what is wrong with them.

TensorFlow's decoder reads the examples. What is here finds the header, counts records, and locates
faults.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import IO

from attrs import evolve, frozen

from compiler.checks.data_files import SEPARATORS, separator_of
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.source import Excerpt, Span
from tfdeploy.data.arguments import BOUNDS, FLOATS
from tfdeploy.data.sources.files import PackedFile, size_of

LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028235e38, "float64": math.inf}
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def fault_of(where: Where, cell: str, dtype: str) -> Diagnostic | None:
    """Return the diagnostic about a cell that cannot be read as `dtype`; None if it can."""
    text = cell.strip(" \t")
    if dtype == "string":
        return None
    if dtype in FLOATS:
        return _float_fault(where, text, dtype)
    if not _WHOLE.fullmatch(text):
        return errors.not_a_number(where, cell, "a whole number" if dtype != "bool" else "0 or 1")
    low, high = BOUNDS[dtype]
    if not low <= int(text) <= high:
        return errors.out_of_range(
            where, value=text, reason=f"is outside {dtype}, which holds {low} to {high}"
        )
    return None


def _float_fault(where: Where, text: str, dtype: str) -> Diagnostic | None:
    if _NOT_FINITE.fullmatch(text):
        return errors.not_a_number(where, text, "a finite number")
    if not _DECIMAL.fullmatch(text):
        return errors.not_a_number(where, text, "a number")
    if abs(float(text)) > LARGEST[dtype] or math.isinf(float(text)):
        return errors.out_of_range(where, value=text, reason=f"is too large for {dtype}")
    return None


CHUNK = 1 << 22
LONGEST = 1 << 20
"""The bytes after which the closing quote of a quoted cell is taken to be missing."""
QUOTE = '"'


@frozen
class Row:
    """A record of a file."""

    number: int  # the number of its first line, from 1
    raw: bytes  # its bytes without the line end

    @property
    def text(self) -> str:
        """The characters of the record; bytes that are no UTF-8 are replaced."""
        return self.raw.decode("utf-8", "replace")


@frozen
class Cell:
    """A cell of a row."""

    text: str  # its content without quotes
    start: int  # where it begins in the row, quotes included
    end: int  # where it ends in the row


class QuoteError(Exception):
    """Quotes do not form pairs; `start` is the place in the row."""

    def __init__(self, reason: str, start: int) -> None:
        self.reason = reason
        self.start = start
        super().__init__(reason)


@frozen
class Layout:
    """The layout of a file."""

    records: int  # the number of records, the header included
    blank_lines: bool = False
    quoted_lines: bool = False  # whether quoted cells contain line breaks
    hexadecimal: bool = False  # whether a cell may hold a hexadecimal number, which TensorFlow would read


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


def layout(file: IO[bytes], heads: int = 1) -> Layout:
    """Count the records of a file; a file without quotes and blank lines is counted in large pieces.

    Args:
        heads: How many records at its beginning name the columns: 1 or 0.
    """
    lines = 0
    last = b"\n"
    hexadecimal = False
    while chunk := file.read(CHUNK):
        seam = last + chunk[:2]
        rows = seam + chunk if lines or not heads else chunk[chunk.find(b"\n") + 1 :]
        hexadecimal |= _has_hexadecimal(rows)
        harder = b'"' in chunk or any(sign in text for text in (chunk, seam) for sign in (b"\n\n", b"\n\r"))
        if harder:
            file.seek(0)
            return _careful_layout(file, heads)
        lines += chunk.count(b"\n")
        last = chunk[-1:]
    return Layout(lines + (last != b"\n"), hexadecimal=hexadecimal)


def _has_hexadecimal(data: bytes) -> bool:
    return b"0x" in data or b"0X" in data


def _careful_layout(file: IO[bytes], heads: int) -> Layout:
    records = 0
    blank = quoted = inside = hexadecimal = False
    for line in file:
        hexadecimal |= records >= heads and _has_hexadecimal(line)
        if not inside and not line.strip(b"\r\n"):
            blank = True
            continue
        records += not inside
        inside ^= line.count(b'"') % 2 == 1
        quoted |= inside
    return Layout(records, blank, quoted, hexadecimal)


def cells(text: str, separator: str = ",") -> list[Cell]:
    """Split a row into cells; raises QuoteError.

    A quoted cell begins and ends with a quote, and a quote in it is written twice; any other holds no quotes.
    """
    found: list[Cell] = []
    start = 0
    while True:
        split = _quoted if text.startswith(QUOTE, start) else _plain
        cell = split(text, start, separator)
        found.append(cell)
        if cell.end == len(text):
            return found
        start = cell.end + 1


def _plain(text: str, start: int, separator: str) -> Cell:
    end = text.find(separator, start)
    end = len(text) if end < 0 else end
    quote = text.find(QUOTE, start, end)
    if quote >= 0:
        raise QuoteError("a quote inside a cell that does not begin with one", quote)
    return Cell(text[start:end], start, end)


def _quoted(text: str, start: int, separator: str) -> Cell:
    at = start + 1
    while True:
        at = text.find(QUOTE, at)
        if at < 0:
            raise QuoteError("a quote that is never closed", start)
        if text.startswith(QUOTE, at + 1):
            at += 2
            continue
        if at + 1 < len(text) and text[at + 1] != separator:
            raise QuoteError("text after the closing quote of a cell", at + 1)
        return Cell(text[start + 1 : at].replace(QUOTE * 2, QUOTE), start, at + 1)


UTF8_MARK = b"\xef\xbb\xbf"
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


@frozen
class Column:
    """A column that is read."""

    index: int  # its place in the header, from 0
    name: str
    dtype: str
    listed: bool = False  # whether each cell has any number of values, separated by spaces


@frozen(eq=False)
class Table(PackedFile):
    """A CSV file."""

    # Whether the first row names the columns; else their names, or False for `column_1` and so on.
    named: bool | tuple[str, ...] = True

    @property
    def heads(self) -> int:
        """How many rows name the columns."""
        return int(self.named is True)

    def rows(self) -> Iterator[Row]:
        """Yield the records of the file, the header first; raises RunError if it cannot be read."""
        with self.opened() as file:
            for row in rows(file):
                yield evolve(row, raw=row.raw.removeprefix(UTF8_MARK)) if row.number == 1 else row

    @cached_property
    def layout(self) -> Layout:
        """The layout of the records, found by reading the file once."""
        with self.opened() as file:
            return layout(file, self.heads)

    @cached_property
    def marked(self) -> bool:
        """Whether the file begins with a mark that says that it is UTF-8."""
        with self.opened() as file:
            return file.read(len(UTF8_MARK)) == UTF8_MARK

    @cached_property
    def separator(self) -> str:
        """What separates the cells; a comma if the number of columns is not known."""
        text = next((row.text for row in self.rows()), "")
        if isinstance(self.named, bool):
            return separator_of(text) if self.named else ","
        return next((each for each in SEPARATORS if text.count(each) == len(self.named) - 1), ",")

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The names of the columns; raises RunError if the first row cannot be a header."""
        whole = self.at()
        if size_of(self.path, self.call) == 0:
            raise RunError(errors.empty(whole, what="the file is empty"))
        row = next(self.rows(), None)
        if row is None:
            raise RunError(errors.empty(whole, what="the file holds nothing but blank lines"))
        if row.number != 1 and self.named is True:
            reason = "the first line is blank, but should have the names of the columns"
            raise RunError(errors.header(whole, reason=reason))
        return self._names(row, whole)

    def _names(self, row: Row, whole: Where) -> tuple[str, ...]:
        raw = row.raw
        if raw.startswith(WIDE_MARKS):
            raise RunError(errors.unreadable(whole, reason="the text is UTF-16", advice="save it as UTF-8"))
        if b"\0" in raw:
            raise RunError(errors.unreadable(whole, reason="this is not text"))
        if b"\r" in raw:
            reason = "the lines end with lone carriage returns"
            raise RunError(
                errors.unreadable(whole, reason=reason, advice="save it with newlines at the ends of lines")
            )
        first = "header" if self.named is True else "first row"
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as fault:
            raise RunError(
                errors.unreadable(whole, reason=f"the {first} is not UTF-8 (byte {fault.start + 1})")
            ) from fault
        try:
            names = tuple(cell.text.strip() for cell in cells(text, self.separator))
        except QuoteError as fault:
            raise RunError(
                errors.quoting(self.at_cell(row, fault.start, fault.start + 1), reason=fault.reason)
            ) from fault
        if self.named is True:
            return names
        if self.named is False:
            return tuple(f"column_{number}" for number in range(1, len(names) + 1))
        if len(self.named) != len(names):
            reason = f"`header` names {len(self.named)} columns, and the first row has {len(names)} cells"
            raise RunError(errors.header(self.at_cell(row, 0, len(row.text)), reason=reason))
        return self.named

    def at_cell(self, row: Row, start: int, end: int, column: str | None = None) -> Where:
        """Return the place of the characters `start` to `end` of a row."""
        source = Excerpt(str(self.path), row.text, number=row.number)
        place = f"row {row.number}" + (f", column `{column}`" if column is not None else "")
        return Where(str(self.path), place, Span(source, start, end), self.call)

    def row(self, index: int) -> Row | None:
        """Return data row `index` (from 0); None if the file ends before it."""
        return next(islice(self.rows(), index + self.heads, None), None)

    def fault(self, row: Row, columns: Sequence[Column]) -> Diagnostic | None:
        """Return the diagnostic about a row from which `columns` are read; None if it has no fault."""
        try:
            found = cells(row.text, self.separator)
        except QuoteError as fault:
            return errors.quoting(self.at_cell(row, fault.start, fault.start + 1), reason=fault.reason)
        wanted = len(self.header)
        if len(found) != wanted:
            short, end = len(found) < wanted, len(row.text)
            where = (
                self.at_cell(row, end, end, self.header[len(found)])
                if short
                else self.at_cell(row, found[wanted].start, found[wanted].end)
            )
            nameless = self.named is not True
            return errors.row_length(where, found=len(found), wanted=wanted, short=short, nameless=nameless)
        for column in sorted(columns, key=lambda each: each.index):
            cell = found[column.index]
            place = self.at_cell(row, cell.start, cell.end, column.name)
            for text in cell.text.split() if column.listed else (cell.text,):
                wrong = fault_of(place, text, column.dtype)
                if wrong is not None:
                    return wrong
        return None
