"""`csv("train.csv", image = "pixel_*", digit = "digit")`: columns of CSV files, by name or glob."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import tensorflow as tf
from attrs import frozen

from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from tfdeploy.data.arguments import FLOATS, Field, Tensors
from tfdeploy.data.small_graphs import without_autograph
from tfdeploy.data.sources.base import Context, FileSource, PythonOnly
from tfdeploy.data.sources.csv_files import Column, Row, Table
from tfdeploy.data.sources.files import find_columns, name_of
from tfdeploy.data.transforms.changes import checked_cast

CHUNK = 1024
DECODED = {
    "float32": "float32",
    "float64": "float64",
    "float16": "float32",
    "bfloat16": "float32",
    "int64": "int64",
    "uint32": "int64",
    "uint64": "string",
    "string": "string",
}
"""The dtype that TensorFlow's decoder gives for a wanted one; int32 for those that are not listed."""


@frozen
class Columns:
    """The columns of a tensor."""

    field: Field
    columns: tuple[Column, ...]  # the columns, in the order of its elements
    # Whether a single column was named without a glob. The tensor is a scalar, or the values of a cell if the
    # field is ragged.
    scalar: bool

    @property
    def decoded(self) -> str:
        """The dtype in which TensorFlow's decoder reads them."""
        return "string" if self.field.ragged else DECODED.get(self.field.dtype, "int32")


class Csv(FileSource):
    """Rows of CSV files; `tensor = "column"` is a scalar, a glob or a list of columns a vector."""

    names_tensors = True

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        if not self.given.others:
            self.given.refuse("names no tensor", advice='write `name = "column"`')
        paths = self.found()
        self.tables = tuple(Table(path, call.span, self.given["header"]) for path in paths)
        self.header = self._common_header()
        self.tensors = tuple(
            self._columns(name, self.given.texts(name), listed=isinstance(value, tuple))
            for name, value in self.given.others.items()
        )
        self.fields = tuple(each.field for each in self.tensors)
        self.needed = tuple(each for each in self.tensors if each.field.name in context.read_as)

    def _common_header(self) -> tuple[str, ...]:
        first, *others = self.tables
        for table in others:
            if table.header != first.header:
                reason = f"the columns are not those of `{first.path}`"
                raise RunError(errors.header(self.at(table.path, "row 1"), reason=reason))
            if table.separator != first.separator:
                reason = f"the cells are not separated as in `{first.path}`"
                raise RunError(errors.header(self.at(table.path, "row 1"), reason=reason))
        return first.header

    def _columns(self, name: str, patterns: Sequence[str], *, listed: bool) -> Columns:
        dtype = self.context.read_as.get(name, "float32")
        indices: list[int] = []
        for pattern in patterns:
            indices += self._matches(name, pattern)
        scalar = not listed and patterns[0] in self.header
        ragged = scalar and name in self.context.free
        columns = tuple(Column(index, self.header[index], dtype, ragged) for index in indices)
        if ragged:
            return Columns(Field(name, dtype, (None,), ragged=True), columns, scalar)
        return Columns(Field(name, dtype, () if scalar else (len(indices),)), columns, scalar)

    def _matches(self, tensor: str, pattern: str) -> list[int]:
        """Return the columns of a name or glob; raises RunError if there are none."""
        where = Where(str(self.tables[0].path), "row 1", call=self.call.kwarg_spans.get(tensor, self.span))
        found = find_columns(pattern, self.header, where)
        if not found:
            raise RunError(self._no_column(where, pattern))
        return found

    def _no_column(self, where: Where, pattern: str) -> Diagnostic:
        if all(re.fullmatch(r"\s*[-+.0-9eE]+\s*", name) for name in self.header):
            reason = "the first row holds numbers in place of the names of the columns"
            advice = "add `header = false`, after which the columns are `column_1`, `column_2` and so on"
            return errors.header(where, reason=reason, advice=advice)
        return errors.missing_field(where, kind="column", name=pattern, known=self.header)

    # --- reading ------------------------------------------------------------------------------------------

    def counts(self) -> tuple[int, ...]:
        """Return the rows of each file without its header; reads the files once."""
        return tuple(table.layout.records - table.heads for table in self.tables)

    @property
    def needs_python(self) -> PythonOnly | None:
        """Why Python is needed: only Python can separate rows if quoted cells contain line breaks."""
        quoted = next((table for table in self.tables if table.layout.quoted_lines), None)
        if quoted is None:
            return None
        reason = f"rows of `{quoted.path}` run over several lines, and only Python tells them apart"
        return PythonOnly(reason, "write the file without line breaks inside cells")

    def records(self, files: Sequence[int] | None = None) -> Any:
        """Return the rows as lines of text, the header and blank lines left out."""
        chosen = self.tables if files is None else [self.tables[number] for number in files]
        parts = [self._lines(table) for table in chosen]
        lines = parts[0]
        for each in parts[1:]:
            lines = lines.concatenate(each)
        return lines

    def _lines(self, table: Table) -> Any:
        compression = "GZIP" if table.compressed else ""
        if table.layout.quoted_lines:
            return _quoted_lines(table)
        lines = tf.data.TextLineDataset(name_of(table.path), compression, buffer_size=1 << 20)
        if table.heads:
            lines = lines.skip(1)
        elif table.marked:
            lines = lines.map(without_autograph(lambda line: tf.strings.regex_replace(line, "^\ufeff", "")))
        if table.layout.blank_lines:
            # Removing blank lines from a batch costs a fifth of checking each line.
            lines = lines.batch(CHUNK).map(without_autograph(_without_blanks)).unbatch()
        return lines

    def decode(self, record: Any) -> Tensors:
        """Return the tensors of a batch of lines."""
        if any(table.layout.hexadecimal for table in self.tables):
            with tf.control_dependencies([self._only_decimal(record)]):
                record = tf.identity(record)
        tensors: Tensors = {}
        for reading in self._readings():
            dtypes = {column.index: each.decoded for each in reading for column in each.columns}
            missing = {  # what a column gets for an empty cell: an error if it is read as a number
                dtype: tf.constant([""]) if dtype == "string" else tf.zeros([0], dtype)
                for dtype in sorted({"string", *dtypes.values()})
            }
            required = [missing[dtypes.get(index, "string")] for index in range(len(self.header))]
            cells = tf.io.decode_csv(record, required, self.tables[0].separator)
            for each in reading:
                parts = [cells[column.index] for column in each.columns]
                tensor = parts[0] if each.scalar else tf.stack(parts, axis=1)
                if each.field.ragged:
                    tensors[each.field.name] = _values(tensor, each.field)
                    continue
                if each.field.dtype == "uint64":  # which the decoder does not know
                    tensor = tf.strings.to_number(tf.strings.strip(tensor), tf.uint64)
                tensors[each.field.name] = checked_cast(tensor, each.field.name, each.field.dtype)
        return tensors

    def _only_decimal(self, record: Any) -> Any:
        """Return the op that refuses a hexadecimal number, which TensorFlow would read as one."""
        numeric = {column.index for column in self._needed_columns() if column.dtype != "string"}
        if not numeric:
            return tf.no_op()
        texts = [tf.constant([""])] * len(numeric)
        cells = tf.io.decode_csv(record, texts, self.tables[0].separator, select_cols=sorted(numeric))
        found = tf.strings.regex_full_match(tf.stack(cells), r"(?s)(.*\s)?[+-]?0[xX].*")
        return tf.debugging.Assert(tf.logical_not(tf.reduce_any(found)), ["a hexadecimal number"])

    def _readings(self) -> list[list[Columns]]:
        """Return the tensors in groups, mostly one, in each of which every column has one dtype."""
        readings: list[tuple[dict[int, str], list[Columns]]] = []
        for each in self.needed:
            wanted = {column.index: each.decoded for column in each.columns}
            for dtypes, group in readings:
                if all(dtypes.get(index, dtype) == dtype for index, dtype in wanted.items()):
                    dtypes.update(wanted)
                    group.append(each)
                    break
            else:
                readings.append((wanted, [each]))
        return [group for _, group in readings]

    # --- faults -------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check the first row of every file; raises RunError if one does not fit."""
        columns = self._needed_columns()
        for table in self.tables:
            row = table.row(0)
            fault = table.fault(row, columns) if row is not None else None
            if fault is not None:
                raise RunError(fault)

    def where(self, index: int) -> Where:
        """Return file and row of example `index`."""
        table, row = self._row(index)
        if row is None:
            return self.at(table.path)
        return table.at_cell(row, 0, len(row.text))

    def words_for(self, name: str) -> str:
        """Return the column of a tensor, if it is one."""
        columns = next(each.columns for each in self.tensors if each.field.name == name)
        return f"column `{columns[0].name}`" if len(columns) == 1 else super().words_for(name)

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Return the diagnostic about the faulty cell of example `index`."""
        table, row = self._row(index)
        fault = table.fault(row, self._needed_columns()) if row is not None else None
        return fault or super().fault(index, reason)

    def _needed_columns(self) -> list[Column]:
        return [column for each in self.needed for column in each.columns]

    def _row(self, index: int) -> tuple[Table, Row | None]:
        file, number = self.place(index)
        return self.tables[file], self.tables[file].row(number)


def _values(cells: Any, field: Field) -> Any:
    """Return the values of a batch of cells, which spaces separate, as a ragged tensor."""
    texts = tf.strings.split(cells)
    if field.dtype == "string":
        return texts
    if field.dtype in ("float64", "uint64"):
        kind = field.dtype
    else:
        kind = "float32" if field.dtype in FLOATS else "int64"
    numbers = tf.strings.to_number(texts.flat_values, kind)
    return texts.with_flat_values(checked_cast(numbers, field.name, field.dtype))


def _without_blanks(lines: Any) -> Any:
    return tf.boolean_mask(lines, tf.strings.length(lines) > 0)


def _quoted_lines(table: Table) -> Any:
    """Return the rows of a file in which quoted cells run over several lines, each row as one string."""

    def some() -> Iterator[list[bytes]]:
        rows = islice(table.rows(), table.heads, None)
        while chunk := [row.raw for row in islice(rows, CHUNK)]:
            yield chunk

    chunks = tf.data.Dataset.from_generator(some, output_signature=tf.TensorSpec([None], tf.string))
    return chunks.unbatch()
