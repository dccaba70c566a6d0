"""`parquet("train-*.parquet", image = "pixel_*", digit = "digit")` and `arrow(...)`: columns of tables.

The files are read by pyarrow, an extra, in pieces of many rows that become arrays. TensorFlow decodes only
images, and numbers that are stored as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
from attrs import evolve, frozen

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from tfdeploy.data.arguments import FLOATS, INTEGERS, Feature, Field, Tensors, read_feature
from tfdeploy.data.small_graphs import without_autograph
from tfdeploy.data.sources.arrow_files import (
    ArrowTable,
    HoleError,
    ParquetTable,
    Table,
    converted,
    row_of,
    values_in,
)
from tfdeploy.data.sources.base import Context, FileSource, PythonOnly
from tfdeploy.data.sources.files import find_columns
from tfdeploy.data.sources.tfrecord import decoded, values_fault

NUMBERS = {*INTEGERS, *FLOATS, "bool"}


@frozen
class Columns:
    """The columns of a tensor."""

    field: Field
    names: tuple[str, ...]  # the names of its columns
    stored: str  # the dtype in which their values are read: that of the field, or `string` for bytes
    stacked: bool = False  # whether the values of a row, one of each column, are a vector
    # What `feature(...)` says about it if its cells are bytes that TensorFlow decodes; else None.
    feature: Feature | None = None

    @property
    def cell(self) -> Field:
        """What a cell holds."""
        single = self.stacked or self.feature is not None
        return evolve(self.field, shape=()) if single else self.field


class Tables(FileSource):
    """Columns of files; a keyword names a tensor, its value columns as in a CSV file, or a feature."""

    names_tensors = True
    finite = False
    table: ClassVar[type[Table]]

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        if not self.given.others:
            self.given.refuse("names no tensor", advice='write `name = "column"`')
        self.tables = tuple(self.table(path, call.span) for path in self.found())
        self.tensors = tuple(
            self._described(read_feature(name, value))
            if isinstance(value, ir.Call)
            else self._columns(name, value)
            for name, value in self.given.others.items()
        )
        self.fields = tuple(each.field for each in self.tensors)
        self.per_record = any(each.feature for each in self.tensors)
        self.gives_tensors = not self.per_record
        self.names = sorted({each for tensor in self.tensors for each in tensor.names})
        self._require_same_columns()

    # --- columns ------------------------------------------------------------------------------------------

    def _columns(self, name: str, value: Any) -> Columns:
        columns = self.tables[0].columns
        names = [each for pattern in self.given.texts(name) for each in self._named(name, pattern)]
        stacked = not isinstance(value, str) or value not in columns
        kinds = {columns[each].kind for each in names}
        own = np.result_type(*kinds).name if kinds <= NUMBERS else min(kinds - NUMBERS)
        dtype = self.context.read_as.get(name, own)
        for each in names:
            self._require_kind(name, each, dtype)
            if stacked and columns[each].shape:
                self._refuse_kind(name, each, "single values", f'name it alone: `{name} = "{each}"`')
        if stacked:
            return Columns(Field(name, dtype, (len(names),)), tuple(names), dtype, stacked=True)
        shape = columns[names[0]].shape
        if None in shape[1:]:
            advice = f'say its shape: `{name} = feature({dtype}, [SIZES], key = "{names[0]}")`'
            self._refuse_kind(name, names[0], "cells of which only the first size varies", advice)
        return Columns(Field(name, dtype, shape, ragged=None in shape), tuple(names), dtype)

    def _described(self, feature: Feature) -> Columns:
        name, dtype = feature.field.name, feature.field.dtype
        (column,) = self._named(name, feature.key)
        if feature.encoding == "list":
            self._require_kind(name, column, dtype)
            return Columns(feature.field, (column,), dtype)
        found = self.tables[0].columns[column]
        if (found.kind, found.shape) != ("bytes", ()):
            self._refuse_kind(name, column, "bytes")
        return Columns(feature.field, (column,), "string", feature=feature)

    def _named(self, tensor: str, pattern: str) -> list[str]:
        """Return the columns of a name or glob; raises RunError if there are none."""
        names, where = list(self.tables[0].columns), self._in_spec(tensor)
        found = find_columns(pattern, names, where)
        if not found:
            raise RunError(errors.missing_field(where, kind="column", name=pattern, known=names))
        return [names[at] for at in found]

    def _in_spec(self, tensor: str, place: str = "") -> Where:
        """Return the first file, read by what the spec says about a tensor."""
        return evolve(self.tables[0].at(place), call=self.given.span(tensor))

    def _require_kind(self, name: str, column: str, dtype: str) -> None:
        """Raise RunError if the cells of a column cannot be read as a dtype."""
        kind = self.tables[0].columns[column].kind
        if dtype == "string":
            fits, wanted = {"string"}, "texts"
        elif dtype in {*INTEGERS, "bool"}:
            fits, wanted = {*INTEGERS, "bool"}, "whole numbers"
        else:
            fits, wanted = NUMBERS, "numbers"
        if kind not in fits:
            advice = f"add `-> cast({name}, {dtype})`, which cuts off fractions" if kind in NUMBERS else None
            self._refuse_kind(name, column, wanted, advice)

    def _refuse_kind(self, name: str, column: str, wanted: str, advice: str | None = None) -> None:
        where, found = self._in_spec(name, f"column `{column}`"), self.tables[0].columns[column].words
        raise RunError(errors.wrong_kind(where, found=found, wanted=wanted, advice=advice))

    def _require_same_columns(self) -> None:
        """Raise RunError if a file has no such columns as the first one has."""
        for table in self.tables[1:]:
            for name in self.names:
                wanted, found = self.tables[0].columns[name], table.columns.get(name)
                if found is None:
                    known = list(table.columns)
                    raise RunError(errors.missing_field(table.at(), kind="column", name=name, known=known))
                if found != wanted:
                    words = f"{wanted.words}, as in `{self.tables[0].path}`"
                    raise RunError(
                        errors.wrong_kind(table.at(f"column `{name}`"), found=found.words, wanted=words)
                    )

    # --- reading ------------------------------------------------------------------------------------------

    @property
    def needs_python(self) -> PythonOnly:
        """Why Python is needed: pyarrow is called there."""
        reason = f"`{self.call.name}` files are read by pyarrow, in Python"
        return PythonOnly(reason, "write TFRecord files, or use `replication = between_graph`")

    def counts(self) -> tuple[int, ...]:
        """Return the rows of each file."""
        return tuple(each.count for each in self.tables)

    def records(self, files: Sequence[int] | None = None) -> Any:
        """Return the tensors of each row; images, and numbers in bytes, as they are stored."""
        tables = self.tables if files is None else [self.tables[number] for number in files]
        signature = {}
        for each in self.tensors:
            name, shape = each.field.name, each.field.shape if each.feature is None else ()
            signature[name] = tf.TensorSpec(shape if each.field.ragged else [None, *shape], each.stored)
            if each.field.ragged:
                signature[f"{name}/ends"] = tf.TensorSpec([None], tf.int64)

        def pieces() -> Iterator[dict[str, Any]]:
            return self.noting(chain.from_iterable(map(self._pieces, tables)))

        rows = tf.data.Dataset.from_generator(pieces, output_signature=signature)
        rows = rows.flat_map(without_autograph(self._sliced))
        return rows.map(without_autograph(_as_tensors)) if self.ragged else rows

    def _sliced(self, piece: Any) -> Any:
        tensors = {}
        for each in self.fields:
            values = piece[each.name]
            if each.ragged:
                ends = piece[f"{each.name}/ends"]
                values = tf.RaggedTensor.from_row_splits(values, ends, validate=False)
            tensors[each.name] = values
        return tf.data.Dataset.from_tensor_slices(tensors)

    def _pieces(self, table: Table) -> Iterator[dict[str, Any]]:
        """Yield the tensors of many rows as arrays; raises RunError."""
        for first, rows in table.rows(self.names):
            piece: dict[str, Any] = {}
            for each in self.tensors:
                name = each.field.name
                parts = [self._values(table, rows, first, each, column) for column in each.names]
                values, ends = parts[0]
                if each.stacked:
                    values = np.stack([part for part, _ in parts], 1)
                elif each.field.ragged:
                    width = evolve(each.field, shape=each.field.shape[1:]).numbers
                    values = values.reshape(-1, *each.field.sizes)
                    piece[f"{name}/ends"] = ends // width
                else:
                    values = values.reshape(rows.num_rows, *each.cell.sizes)
                piece[name] = values
            yield piece

    def _values(self, table: Table, rows: Any, first: int, tensor: Columns, name: str) -> tuple[Any, Any]:
        """Return the values of a column in some rows, and where those of each row begin; raises RunError."""
        try:
            values, ends = values_in(rows, table.columns[name], table.arrow)
        except HoleError as hole:
            wanted = (
                {"string": "a text"}.get(tensor.stored, "a number") if tensor.feature is None else "bytes"
            )
            raise RunError(errors.not_a_number(table.cell(first + hole.row, name), "", wanted)) from None
        width = evolve(tensor.cell, shape=tensor.cell.sizes).numbers
        sizes = np.diff(ends)
        bad = sizes % width != 0 if tensor.field.ragged else sizes != width
        if bad.any():
            row = int(np.argmax(bad))
            wanted = f"{'a multiple of ' if tensor.field.ragged else ''}{width} for {tensor.field.words}"
            where = table.cell(first + row, name)
            raise RunError(errors.wrong_shape(where, found=f"{sizes[row]} values", wanted=wanted))
        found = values if tensor.stored == "string" else converted(values, tensor.stored)
        if isinstance(found, tuple):
            at, reason = found
            where = table.cell(first + row_of(at, ends), name)
            raise RunError(errors.out_of_range(where, value=str(values[at]), reason=reason))
        return found, ends

    def decode(self, record: Any) -> Tensors:
        """Return a batch, which holds the tensors already, or one row with its bytes decoded."""
        return self.decode_as(record, frozenset())

    def decode_as(self, record: Any, floats: frozenset[str]) -> Tensors:
        """Return the same with images as floats if they are among them."""
        tensors: Tensors = dict(record)
        for each in self.tensors:
            name = each.field.name
            if each.feature is not None:
                dtype = "float32" if name in floats else each.field.dtype
                tensors[name] = decoded(each.feature, record[name], dtype)
        return tensors

    # --- faults -------------------------------------------------------------------------------------------

    def where(self, index: int) -> Where:
        """Return file and row of example `index`."""
        file, number = self.place(index)
        return self.tables[file].at(f"row {number}")

    def words_for(self, name: str) -> str:
        """Return the column of a tensor, if it is one."""
        names = next(each.names for each in self.tensors if each.field.name == name)
        return f"column `{names[0]}`" if len(names) == 1 else super().words_for(name)

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Return what was wrong while the file was read, or with the bytes in a cell of example `index`."""
        if self.failures:
            return self.failures[0]
        file, number = self.place(index)
        table = self.tables[file]
        first, rows = next(
            (first, rows) for first, rows in table.rows(self.names) if number < first + rows.num_rows
        )
        for each in self.tensors:
            if each.feature is not None:
                values, _ = values_in(
                    rows.slice(number - first, 1), table.columns[each.names[0]], table.arrow
                )
                found = values_fault(table.cell(number, each.names[0]), list(values), each.feature)
                if found is not None:
                    return found
        return super().fault(index, reason)


class Parquet(Tables):
    """Columns of Parquet files."""

    table = ParquetTable


class Arrow(Tables):
    """Columns of Arrow files: those of Feather, and streams, which Hugging Face writes."""

    table = ArrowTable


def _as_tensors(row: Any) -> Any:
    """Return a row without ragged tensors, whose place in a row alone tensors take."""
    return {name: tf.identity(each) for name, each in row.items()}
