"""One CSV file: its header, how many rows it has, and what is wrong with a row."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

from attrs import frozen

from dsl.diagnostics import RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.source import Excerpt, Span
from tfdeploy.data.sources.csv import cells as csv_cells
from tfdeploy.data.sources.csv import text as csv_text
from tfdeploy.data.sources.files import is_gzip, open_binary, reading, size_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import IO

    from dsl.diagnostics import Diagnostic
    from tfdeploy.data.sources.csv.text import Row

UTF8_MARK = b"\xef\xbb\xbf"
WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


@frozen
class Column:
    """A column that is read.

    Attributes:
        index: Its place in the header, from 0.
        name: Its name in the header.
        dtype: The dtype of its cells.
        listed: Whether each cell has any number of values, separated by spaces.
    """

    index: int
    name: str
    dtype: str
    listed: bool = False


@frozen(eq=False)
class Table:
    """A CSV file, which is read again by each method that needs it.

    Attributes:
        path: The file.
        call: The place of the source in the spec.
    """

    path: Path
    call: Span | None

    @cached_property
    def compressed(self) -> bool:
        """Whether the file is a gzip file."""
        return is_gzip(self.path, self.call)

    def rows(self) -> Iterator[Row]:
        """Yield the records of the file, the header first; raises RunError if it cannot be read."""
        with self._opened() as file:
            yield from csv_text.rows(file)

    @cached_property
    def layout(self) -> csv_text.Layout:
        """The layout of the records, found by reading the file once."""
        with self._opened() as file:
            return csv_text.layout(file)

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        with (
            reading(self.path, self.call),
            open_binary(self.path, compressed=self.compressed) as file,
        ):
            yield file

    @cached_property
    def header(self) -> tuple[str, ...]:
        """The names of the columns; raises RunError if the first row cannot be a header."""
        whole = Where(str(self.path), call=self.call)
        if size_of(self.path, self.call) == 0:
            raise RunError(errors.empty(whole, what="the file is empty"))
        row = next(self.rows(), None)
        if row is None:
            raise RunError(errors.empty(whole, what="the file holds nothing but blank lines"))
        if row.number != 1:
            raise RunError(
                errors.header(
                    whole, reason="the first line is blank, but should have the names of the columns"
                )
            )
        return self._names(row, whole)

    def _names(self, row: Row, whole: Where) -> tuple[str, ...]:
        raw = row.raw.removeprefix(UTF8_MARK)
        if raw.startswith(WIDE_MARKS):
            raise RunError(errors.unreadable(whole, reason="the text is UTF-16", advice="save it as UTF-8"))
        if b"\0" in raw:
            raise RunError(errors.unreadable(whole, reason="this is not text"))
        if b"\r" in raw:
            reason = "the lines end with lone carriage returns"
            raise RunError(
                errors.unreadable(whole, reason=reason, advice="save it with newlines at the ends of lines")
            )
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as fault:
            raise RunError(
                errors.unreadable(whole, reason=f"the header is not UTF-8 (byte {fault.start + 1})")
            ) from fault
        try:
            names = tuple(cell.text.strip() for cell in csv_text.cells(text))
        except csv_text.QuoteError as fault:
            raise RunError(
                errors.quoting(self.at(row, fault.start, fault.start + 1), reason=fault.reason)
            ) from fault
        return names

    def at(self, row: Row, start: int, end: int, column: str | None = None) -> Where:
        """Return the place of the characters `start` to `end` of a row.

        Args:
            row: The row.
            start: The number of the first character in the row, from 0.
            end: The number of the character behind the last one.
            column: The name of the column; None if no single column is meant.
        """
        source = Excerpt(str(self.path), row.text, number=row.number)
        place = f"row {row.number}" + (f", column `{column}`" if column is not None else "")
        return Where(str(self.path), place, Span(source, start, end), self.call)

    def row(self, index: int) -> Row | None:
        """Return data row `index` (from 0); None if the file ends before it."""
        return next(islice(self.rows(), index + 1, None), None)

    def fault(self, row: Row, columns: Sequence[Column]) -> Diagnostic | None:
        """Return the diagnostic about a row from which `columns` are read; None if it has no fault.

        Args:
            row: The row.
            columns: The columns that are read. Cells of other columns may hold anything.
        """
        try:
            found = csv_text.cells(row.text)
        except csv_text.QuoteError as fault:
            return errors.quoting(self.at(row, fault.start, fault.start + 1), reason=fault.reason)
        wanted = len(self.header)
        if len(found) < wanted:
            end = len(row.text)
            return errors.row_length(
                self.at(row, end, end, self.header[len(found)]),
                found=len(found),
                wanted=wanted,
                short=len(found) < wanted,
            )
        if len(found) > wanted:
            extra = found[wanted]
            return errors.row_length(
                self.at(row, extra.start, extra.end),
                found=len(found),
                wanted=wanted,
                short=len(found) < wanted,
            )
        for column in sorted(columns, key=lambda each: each.index):
            cell = found[column.index]
            place = self.at(row, cell.start, cell.end, column.name)
            for text in cell.text.split() if column.listed else (cell.text,):
                wrong = csv_cells.fault(place, text, column.dtype)
                if wrong is not None:
                    return wrong
        return None
