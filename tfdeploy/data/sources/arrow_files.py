"""Parquet and Arrow files through pyarrow: their columns, their rows in pieces, and what is wrong there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import Factory, field, frozen

from dsl.diagnostics import RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.source import Span
from tfdeploy.data.arguments import BOUNDS, FLOATS
from tfdeploy.data.sources.files import DataFile, read_start, reading

ROWS = 1024
"""How many rows are read at a time."""


def pyarrow(call: Span | None, file: Path) -> Any:
    """Return the package that reads these files; raises RunError if it is not installed."""
    try:
        import pyarrow.parquet
    except ImportError as fault:
        reason = "only the Python package `pyarrow` reads this file, and it is not installed here"
        advice = "install it: `pip install pyarrow`"
        raise RunError(
            errors.unreadable(Where(str(file), call=call), reason=reason, advice=advice)
        ) from fault
    return pyarrow


@frozen
class Column:
    """A column of a file."""

    kind: str  # the dtype of its numbers, `string` or `bytes`; else the type as Arrow writes it
    shape: tuple[int | None, ...]  # the axes of a cell; None for one whose size differs from cell to cell
    # The names that lead to it: of a column, and of the fields within its cells.
    path: tuple[str, ...] = field(eq=False)

    @property
    def words(self) -> str:
        """What its cells are, in words."""
        sizes = "".join("[]" if size is None else f"[{size}]" for size in self.shape)
        return f"{self.kind}{sizes}"


@frozen(eq=False)
class Table(DataFile, ABC):
    """A file of rows with columns."""

    arrow: Any = field(init=False, default=Factory(lambda own: pyarrow(own.call, own.path), takes_self=True))

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """The columns by name, and the fields within their cells by names with points between them."""
        with self.reading():
            return dict(self._columns(self.schema(), ()))

    def _columns(self, fields: Any, above: tuple[str, ...]) -> Iterator[tuple[str, Column]]:
        for each in fields:
            path, types = (*above, each.name), self.arrow.types
            if types.is_struct(each.type):
                yield from self._columns(each.type, path)
                continue
            kind, shape = each.type, []
            while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
                shape.append(kind.list_size if types.is_fixed_size_list(kind) else None)
                kind = kind.value_type
            yield ".".join(path), Column(self._kind(kind), tuple(shape), path)

    def _kind(self, kind: Any) -> str:
        types = self.arrow.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_string(kind) or types.is_large_string(kind):
            return "string"
        if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
            return "bytes"
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            return str(np.dtype(kind.to_pandas_dtype()))
        return str(kind)

    @abstractmethod
    def schema(self) -> Any:
        """Return the schema of the file."""

    @abstractmethod
    def _count(self) -> int:
        """Return the number of rows that the file says it has."""

    @abstractmethod
    def _pieces(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows as record batches with some columns."""

    @cached_property
    def count(self) -> int:
        """The number of rows; raises RunError."""
        with self.reading():
            return self._count()

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield the number of a row, and some columns of this row and those after it; raises RunError."""
        first = 0
        with self.reading():
            for piece in self._pieces(names):
                if first == 0:
                    self._require_same(piece, names)
                piece.validate(full=True)  # what damaged bytes point to may be anywhere in the memory
                for start in range(0, piece.num_rows, ROWS):
                    part = piece.slice(start, ROWS)
                    yield first, part
                    first += part.num_rows
        if first != self.count:
            reason = f"it has {first} rows, and says that it has {self.count}"
            raise RunError(errors.damaged(self.at(), reason=reason))

    def _require_same(self, rows: Any, names: Sequence[str]) -> None:
        """Raise RunError if a file with other columns has taken the place of the one that was looked at."""
        found = dict(self._columns(rows.schema, ()))
        other = next((name for name in names if found.get(name) != self.columns[name]), None)
        if other is not None:
            reason = f"its column `{other}` is no longer as it was when the file was first read"
            raise RunError(errors.damaged(self.at(), reason=reason))

    def _start(self) -> bytes:
        """Return the first bytes of the file; raises RunError if there are none."""
        start = read_start(self.path, 6, self.call)
        if not start:
            raise RunError(errors.empty(self.at(), what="the file is empty"))
        return start

    def cell(self, row: int, name: str) -> Where:
        """Return the place of a cell for messages: the row, counted from 0, and the name of the column."""
        return self.at(f"row {row}, column `{name}`")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn what pyarrow raises within into a RunError."""
        with reading(self.path, self.call):
            try:
                yield
            except (self.arrow.ArrowException, OSError, ValueError) as fault:
                if isinstance(fault, OSError) and fault.errno:
                    raise  # the system refuses the file
                reason = (
                    f"it cannot be read: {str(fault).splitlines()[0] if str(fault) else type(fault).__name__}"
                )
                raise RunError(errors.damaged(self.at(), reason=reason)) from fault


class ParquetTable(Table):
    """A Parquet file."""

    def _opened(self) -> Any:
        if not self._start().startswith(b"PAR1"):
            raise RunError(errors.unreadable(self.at(), reason="this is not a Parquet file"))
        return self.arrow.parquet.ParquetFile(self.path, page_checksum_verification=True)

    def schema(self) -> Any:
        """Return the schema in the footer."""
        return self._opened().schema_arrow

    def _count(self) -> int:
        return int(self._opened().metadata.num_rows)

    def _pieces(self, names: Sequence[str]) -> Iterator[Any]:
        yield from self._opened().iter_batches(ROWS, columns=list(names))


class ArrowTable(Table):
    """An Arrow file, which Feather calls its own, or a stream of Arrow's messages in a file."""

    def _opened(self, wanted: Sequence[int] = ()) -> Any:
        """Open the file for the columns with the numbers `wanted`, or for all."""
        ipc, is_file = self.arrow.ipc, self._start() == b"ARROW1"
        options = ipc.IpcReadOptions(included_fields=list(wanted))
        opened = ipc.open_file if is_file else ipc.open_stream
        return opened(self.arrow.OSFile(str(self.path)), options=options)

    def schema(self) -> Any:
        """Return the schema at the beginning."""
        return self._opened().schema

    def _count(self) -> int:
        return sum(each.num_rows for each in self._batches([0]))

    def _pieces(self, names: Sequence[str]) -> Iterator[Any]:
        first = {self.columns[each].path[0] for each in names}
        return self._batches([at for at, name in enumerate(self.schema().names) if name in first])

    def _batches(self, wanted: Sequence[int]) -> Iterator[Any]:
        opened = self._opened(wanted)
        if hasattr(opened, "num_record_batches"):
            return (opened.get_batch(at) for at in range(opened.num_record_batches))
        return iter(opened)


class HoleError(Exception):
    """A cell, or an item in it, is null; `row` is its row."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(f"row {row} is null")


def values_in(rows: Any, column: Column, arrow: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the values in a column of some rows, and where those of each row begin, with the end behind.

    Raises:
        HoleError: A cell, or an item in it, is null.
    """
    array = rows.column(rows.schema.get_field_index(column.path[0]))
    for name in column.path[1:]:
        array = array.flatten()[array.type.get_field_index(name)]  # null where the struct is
    ends = np.arange(len(array) + 1)
    for _ in column.shape:
        _require_whole(array, ends)
        if arrow.types.is_fixed_size_list(array.type):
            inner = np.arange(len(array) + 1) * array.type.list_size
        else:
            inner = array.offsets.to_numpy()
            inner = inner - inner[0]
        array, ends = array.flatten(), inner[ends]
    _require_whole(array, ends)
    if arrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.to_numpy(zero_copy_only=False), ends


def _require_whole(array: Any, ends: np.ndarray) -> None:
    if array.null_count:
        first = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise HoleError(row_of(first, ends))


def row_of(value: int, ends: np.ndarray) -> int:
    """Return the row in which a value is, given where the values of each row begin."""
    return int(np.searchsorted(ends, value, "right")) - 1


def converted(values: np.ndarray, dtype: str) -> np.ndarray | tuple[int, str]:
    """Return values as another dtype, or the first one that it cannot hold, and why."""
    if dtype in FLOATS:
        with np.errstate(over="ignore"):
            found = values.astype(tf.as_dtype(dtype).as_numpy_dtype)
        bad = np.isinf(found) & np.isfinite(values)
        reason = f"is too large for {dtype}"
    else:
        low, high = BOUNDS[dtype]
        info = np.iinfo(values.dtype) if values.dtype != bool else np.iinfo("uint8")
        found = values.astype(dtype)
        bad = (values < max(low, info.min)) | (values > min(high, info.max))
        reason = f"is outside {dtype}, which holds {low} to {high}"
    return (int(np.argmax(bad)), reason) if bad.any() else found
