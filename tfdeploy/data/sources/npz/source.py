"""`npz("digits.npz", image = "x_train", digit = "y_train")`: arrays of a NumPy archive.

Arrays are never held whole. Those that `numpy.savez` stored are read by TensorFlow from where they lie in
the file; compressed ones, and those in an order TensorFlow cannot read, pass through Python in pieces.
"""

from __future__ import annotations

import sys
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from dsl.diagnostics import RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.suggest import nearest
from tfdeploy.data.options import Field, Tensors
from tfdeploy.data.sources.base import Context, PythonOnly, Source
from tfdeploy.data.sources.files import name_of
from tfdeploy.data.sources.npz.archive import Archive, Array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl import ir
    from dsl.diagnostics import Diagnostic

PIECE = 1 << 22
SIGNED = {"uint32": "int32", "uint64": "int64"}
"""Dtypes that TensorFlow's decoder lacks, and those whose bits it can read in their place."""


class Npz(Source):
    """Arrays whose first axis counts the examples; without keywords, every array under its own name."""

    finite = False

    def __init__(self, call: ir.Call, context: Context) -> None:
        super().__init__(call, context)
        paths = self.found()
        if len(paths) > 1:
            self.given.refuse(f"reads one file, and `{self.given['path']}` matches {len(paths)}", "path")
        self.archive = Archive(paths[0], call.span)
        names = self.archive.names
        chosen = self.given.others or dict(zip(names, names, strict=True))
        self.arrays = {
            name: self._array(array, names, self.given.span(name)) for name, array in chosen.items()
        }
        self.fields = tuple(Field(name, each.dtype, each.shape[1:]) for name, each in self.arrays.items())
        self.length = self._common_length()

    def _array(self, name: str, names: tuple[str, ...], span: Any) -> Array:
        if name not in names:
            where = Where(str(self.archive.path), call=span)
            raise RunError(
                errors.missing_field(
                    where, kind="array", name=name, names=names, nearest=nearest(name, names)
                )
            )
        return self.archive.array(name)

    def _common_length(self) -> int:
        arrays = list(self.arrays.values())
        where = self.at(self.archive.path)
        if not arrays:
            raise RunError(errors.empty(where, what="the archive holds no array"))
        for each in arrays[1:]:
            if each.shape[0] != arrays[0].shape[0]:
                found = f"{each.shape[0]} examples in array `{each.name}`"
                wanted = f"{arrays[0].shape[0]}, as in `{arrays[0].name}`"
                raise RunError(errors.wrong_shape(where, found=found, wanted=wanted))
        return arrays[0].shape[0]

    @property
    def needs_python(self) -> PythonOnly | None:
        """An array is not stored as TensorFlow can read it: packed, by columns, or in another byte order."""
        found = next((each for each in self.arrays.values() if each.offset is None), None)
        if found is None:
            return None
        stored = f"array `{found.name}` of `{self.archive.path}` is stored"
        advice = "write plain arrays, `numpy.ascontiguousarray(...)`, with `numpy.savez`"
        return PythonOnly(f"{stored} packed or in an order that only Python reads", advice)

    def records(self) -> Any:
        """Return the bytes of each array's examples, or the examples themselves if Python reads them."""
        datasets = {name: self._records(each) for name, each in self.arrays.items()}
        return tf.data.Dataset.zip(datasets)

    def _records(self, array: Array) -> Any:
        if array.offset is None:
            signature = tf.TensorSpec([None, *array.shape[1:]], array.dtype)
            pieces = tf.data.Dataset.from_generator(lambda: self._pieces(array), output_signature=signature)
            return pieces.unbatch()
        end = array.offset + array.length * array.record_bytes
        footer = self.archive.path.stat().st_size - end
        return tf.data.FixedLengthRecordDataset(
            name_of(self.archive.path), array.record_bytes, array.offset, footer, buffer_size=1 << 20
        )

    def _pieces(self, array: Array) -> Iterator[np.ndarray]:
        rows = max(1, PIECE // max(array.record_bytes, 1))
        try:
            yield from self.archive.pieces(array, rows)
        except RunError as error:
            self.failures.append(error.diagnostic)
            raise

    def decode(self, record: Any) -> Tensors:
        """Return the numbers of a batch of examples."""
        return {name: self._decode(each, record[name]) for name, each in self.arrays.items()}

    def _decode(self, array: Array, record: Any) -> Any:
        if array.offset is None:
            return record
        if array.dtype == "string":
            return _decode_text(array, record)
        numbers = tf.io.decode_raw(record, SIGNED.get(array.dtype, array.dtype))
        if array.dtype in SIGNED:
            numbers = tf.bitcast(numbers, array.dtype)
        batch = record.shape[0] if record.shape[0] is not None else -1
        return tf.reshape(numbers, [batch, *array.shape[1:]])

    def where(self, index: int) -> Where:
        """Return the place of example `index`."""
        return self.at(self.archive.path, f"example {index}")

    def words_for(self, name: str) -> str:
        """Return the array of a tensor."""
        return f"array `{self.arrays[name].name}`"

    def fault(self, index: int, reason: str) -> Diagnostic:
        """Say which array is damaged, found by the checksums of the archive."""
        for array in self.arrays.values():
            fault = self.archive.damage(array)
            if fault is not None:
                return fault
        return super().fault(index, reason)


def _decode_text(array: Array, record: Any) -> Any:
    """Return the texts of a batch of examples, in UTF-8, without the zeros that fill them up.

    NumPy stores each text of an array with the same number of bytes: four for each character, or one if the
    array holds bytes.
    """
    width, count = array.stored.itemsize, prod(array.shape[1:])
    begins = tf.range(0, count * width, width)[None] + tf.zeros_like(tf.strings.length(record))[:, None]
    records = tf.repeat(record[:, None], count, axis=1)
    texts = tf.strings.substr(records, begins, tf.fill(tf.shape(begins), width))
    if array.stored.kind == "U":
        encoding = "UTF-32-LE" if sys.byteorder == "little" else "UTF-32-BE"
        texts = tf.strings.unicode_transcode(texts, encoding, "UTF-8")
    batch = record.shape[0] if record.shape[0] is not None else -1
    return tf.reshape(tf.strings.regex_replace(texts, "\\x00+$", ""), [batch, *array.shape[1:]])
