"""What CSV, Parquet and Arrow files hold: columns, with the values seen in them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from attrs import define, field

from compiler.checks.data_files import SEPARATORS
from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from tfdeploy.data.sources.arrow_files import ArrowTable, Column, HoleError, ParquetTable, row_of, values_in
from tfdeploy.data.sources.arrow_files import Table as ArrowFile
from tfdeploy.data.sources.csv_files import QuoteError, Row, Table, cells
from tfdeploy.data.sources.files import natural_key
from tfdeploy.onramp.found import (
    MOST_CLASSES,
    MOST_FILES,
    MOST_ROWS,
    Found,
    Tensor,
    array,
    feature_call,
    of_bytes,
)

_WHOLE = re.compile(r"\s*[-+]?[0-9]{1,18}\s*")
_NUMBER = re.compile(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*")
_MISSING = frozenset({"", "nan", "na", "null", "none", "?"})

MOST_LISTED = 8
"""How many columns of a vector are named one by one."""

Header = bool | tuple[str, ...] | None
"""Whether the first row of CSV files names their columns, the names if not, or None to find out."""


def of_csv(path: Path, files: Sequence[Path], header: Header) -> Found:
    """Return what CSV files hold."""
    found = Found(path, "csv")
    guessed = _has_header(Table(files[0], None)) if header is None else header
    tables = [Table(each, None, guessed) for each in files]
    if guessed is not True:
        found.kwargs = {"header": guessed}
    if header is None and guessed is False:
        found.lost.append(
            "the first row holds values, as the rows below it do, and so no column has a name: they are "
            f"called column_1 to column_{len(tables[0].header)}"
        )
    header_row = _names(tables[0])
    found.columns = header_row
    columns = [_CsvColumn() for _ in header_row]
    for table in tables:
        if table.header != header_row:
            reason = f"the columns are not those of `{files[0]}`"
            raise RunError(errors.header(Where(str(table.path), "row 1"), reason=reason))
        for number, texts in islice(_rows(table), max(0, MOST_ROWS - found.count)):
            for column, text in zip(columns, texts, strict=True):
                column.see(text, number)
        found.count += table.layout.records - table.heads
    if not found.count:
        raise RunError(errors.empty(Where(str(path)), what="the file holds no row but the header"))
    for name, column in zip(header_row, columns, strict=True):
        found.add("column", name, name.lower(), column.left_out or column.tensor(name))
    return found


def _rows(table: Table) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row, with its number; raises RunError if it has not as many as the first."""
    for row in islice(table.rows(), table.heads, None):
        texts = _texts(row, table)
        if len(texts) != len(table.header):
            raise RunError(table.fault(row, ()))  # type: ignore[arg-type] # there is one
        yield row.number, texts


def _texts(row: Row, table: Table) -> list[str]:
    """Return the cells of a row; none if its quotes form no pairs."""
    try:
        return [each.text for each in cells(row.text, table.separator)]
    except QuoteError:
        return []


def _has_header(table: Table) -> bool:
    """Whether the first row names the columns: it has no number, or not where all rows below have one."""
    if all(_NUMBER.fullmatch(each) for each in table.header):
        return False
    below = [_texts(row, table) for row in islice(table.rows(), 1, 1 + MOST_FILES)]
    numeric = [
        at
        for at in range(len(table.header))
        if below and all(len(each) > at and _NUMBER.fullmatch(each[at]) for each in below)
    ]
    return not numeric or not all(_NUMBER.fullmatch(table.header[at]) for at in numeric)


def _names(table: Table) -> tuple[str, ...]:
    """Return the names of the columns. Raises RunError if the first row does not name them."""
    header, advice = table.header, None
    twice = [each for each, times in Counter(header).items() if times > 1]
    first = next(table.rows()).text
    if len(header) == 1 and any(sign in first for sign in SEPARATORS[1:]):
        reason = "the first row is a single column: the cells are not separated by commas"
        advice = "name the columns, in the file or with `--columns`, or save it with commas between the cells"
    elif twice:
        reason = f"there are {header.count(twice[0])} columns `{twice[0]}`"
    else:
        return header
    raise RunError(errors.header(Where(str(table.path), "row 1"), reason=reason, advice=advice))


def _unfit(words: Counter[str]) -> str:
    """Return why a column of words is no feature; empty if it may be one."""
    if len(words) > MOST_CLASSES:
        return f"it has more than {MOST_CLASSES:,} different words"
    if len(words) == words.total() > 1:
        return "its words are all different"
    return "all of its cells are the same" if len(words) == 1 and words.total() > 1 else ""


def _ordered(words: Counter[str]) -> tuple[str, ...]:
    return tuple(sorted(words, key=lambda each: (-words[each], each)))


@define
class _CsvColumn:
    """What the cells of a column hold."""

    words: Counter[str] = field(factory=Counter)
    numbers: int = 0
    whole: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    empty: list[int] = field(factory=list)  # the rows

    def see(self, text: str, row: int) -> None:
        if text.strip().lower() in _MISSING:
            self.empty.append(row)
        if _NUMBER.fullmatch(text):
            value = float(text)
            self.numbers += 1
            self.whole += _WHOLE.fullmatch(text) is not None
            self.low, self.high = min(self.low, value), max(self.high, value)
        if len(self.words) <= MOST_CLASSES:
            self.words[text] += 1

    def _is_word(self, text: str) -> bool:
        return _NUMBER.fullmatch(text) is None and text.strip().lower() not in _MISSING

    @property
    def is_numeric(self) -> bool:
        """Whether all cells that are not empty are numbers."""
        return self.numbers > 0 and not any(map(self._is_word, self.words))

    @property
    def left_out(self) -> str:
        """Why the column is left out; empty if it is not."""
        if self.is_numeric and self.empty:
            have = "has" if len(self.empty) == 1 else "have"
            return f"{len(self.empty):,} of its cells {have} no number, the first in row {self.empty[0]}"
        if not self.numbers and not any(map(self._is_word, self.words)):
            return "all of its cells are empty"
        return "" if self.is_numeric else _unfit(self.words)

    def tensor(self, name: str) -> Tensor:
        """Return the column as a tensor."""
        if not self.is_numeric:
            return Tensor(name, "string", (), name, words=_ordered(self.words))
        small = max(abs(self.low), abs(self.high)) < 1 << 31
        dtype = ("int32" if small else "int64") if self.whole == self.numbers else "float32"
        return Tensor(name, dtype, (), name, self.low, self.high)


def joined(tensors: Sequence[Tensor], name: str, header: Sequence[str]) -> Tensor:
    """Return columns as a vector, whose source is given a glob if one matches them and no others."""
    names = [str(each.given) for each in tensors]
    stems = {re.sub(r"[0-9]+$", "", each) for each in names}
    stem = stems.pop() if len(stems) == 1 else None
    numbered = bool(stem) and [each for each in header if each.startswith(str(stem))] == names
    ordered = sorted(names, key=natural_key) == names
    given: ir.Value = f"{stem}*" if numbered and ordered and len(names) > 1 else _in_globs(names)
    lows = [each.low for each in tensors if each.low is not None]
    highs = [each.high for each in tensors if each.high is not None]
    return Tensor(name, "float32", (len(names),), given, min(lows), max(highs), parts=tuple(tensors))


def _in_globs(names: list[str]) -> tuple[str, ...]:
    """Return globs that match these names, if they are numbered without a gap and many; else the names."""
    stem = re.sub(r"[0-9]+$", "", names[0])
    numbers = [each.removeprefix(stem) for each in names]
    first, last = (int(each) if each.isdecimal() else -1 for each in (numbers[0], numbers[-1]))
    if len(names) <= MOST_LISTED or numbers != [str(each) for each in range(first, last + 1)]:
        return tuple(names)
    return tuple(f"{stem}{each}" for each in _digits(first, last))


def _digits(first: int, last: int) -> Iterator[str]:
    """Yield globs that together match the numbers from the first to the last one, and no others."""
    while first <= last:
        size = 1  # the largest power of ten that divides the beginning and fits into what is left
        while first % (size * 10) == 0 and first + size * 10 - 1 <= last and first >= size * 10:
            size *= 10
        most = min((last - first + 1) // size, 10 - first // size % 10)
        digit, head = first // size % 10, str(first // size)[:-1]
        any_of = str(digit) if most == 1 else f"[{digit}-{digit + most - 1}]"
        yield head + any_of + "[0-9]" * (len(str(size)) - 1)
        first += most * size


# --- Parquet and Arrow --------------------------------------------------------------------------------------


def of_arrow(path: Path, files: Sequence[Path], kind: str) -> Found:
    """Return what Parquet or Arrow files hold."""
    tables: list[ArrowFile] = [
        (ParquetTable if kind == "parquet" else ArrowTable)(each, None) for each in files
    ]
    columns = tables[0].columns
    found = Found(path, kind, columns=tuple(columns))
    for table in tables[1:]:
        for name, column in columns.items():
            if table.columns.get(name) != column:
                reason = f"the column `{name}` is not as in `{files[0]}`"
                raise RunError(errors.header(table.at(), reason=reason))
    found.count = sum(each.count for each in tables)
    if not found.count:
        raise RunError(errors.empty(Where(str(path)), what="there is no row"))
    for name, column in columns.items():
        found.add("column", name, name.lower(), _arrow_column(tables, name, column))
    return found


def _arrow_column(tables: Sequence[ArrowFile], name: str, column: Column) -> Tensor | str:
    """Return a column as a tensor, or why it is left out."""
    kind, shape = column.kind, column.shape
    if (kind == "bytes" and shape) or None in shape[1:]:
        return f"its cells are {column.words}, of which only you know the shape"
    if kind not in {"bytes", "string", "bool"} and not re.fullmatch(r"u?int\d+|float\d+", kind):
        return f"its cells are {kind}, which is neither a number nor a text"
    found = _values_of(tables, name, column)
    if isinstance(found, str):
        return found
    values, size = found
    if kind == "bytes":
        return of_bytes(name, values.tolist(), ())
    cell = tuple(size if each is None else each for each in shape)
    given: ir.Value = name if cell == shape else feature_call(kind, cell)
    if kind == "string":
        words = Counter(values.tolist())
        return ("" if shape else _unfit(words)) or Tensor(name, kind, cell, given, words=_ordered(words))
    return array(name, values.reshape(-1, *cell), given, kind)


def _values_of(tables: Sequence[ArrowFile], name: str, column: Column) -> tuple[Any, int] | str:
    """Return the values in the first cells of a column, and how many a cell has, or why it is left out."""
    parts: list[Any] = []
    sizes: set[int] = set()
    left = MOST_FILES if column.kind == "bytes" else MOST_ROWS
    for table in tables:
        for first, rows in table.rows([name]) if left > 0 else ():
            try:
                values, ends = values_in(rows.slice(0, max(left, 0)), column, table.arrow)
            except HoleError as hole:
                return f"it has cells that are null, the first in {table.at(f'row {first + hole.row}').words}"
            bad = np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, bool)
            if bad.any():
                place = table.at(f"row {first + row_of(int(np.argmax(bad)), ends)}")
                return f"it has cells that are no number, the first in {place.words}"
            parts.append(values)
            sizes |= set(np.diff(ends).tolist())
            left -= rows.num_rows
            if left <= 0:
                break
    if len(sizes) > 1:
        return f"it has {min(sizes)} to {max(sizes)} values, for which `pad` is needed"
    return np.concatenate(parts), sizes.pop()
