"""`npz("digits.npz", image = "x_train", digit = "y_train")`: arrays of a NumPy archive.

The archive is a zip file of arrays, which are never held whole; their headers are read first. Arrays that
`numpy.savez` stored are read by TensorFlow from where they lie in the file; compressed ones, and those in an
order TensorFlow cannot read, pass through Python in pieces.
"""

from __future__ import annotations

import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from math import prod
from typing import IO, Any, NoReturn

import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.graph.storage.zip_files import ZipArchive
from dsl import ir
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.files.regular import open_regular, system_reason
from tfdeploy.data.arguments import DTYPES, Field, Tensors
from tfdeploy.data.sources.base import Context, PythonOnly, Source
from tfdeploy.data.sources.files import DataFile, fault_within, name_of, size_of

LOCAL_HEADER = 30
"""Bytes of the fixed part of a zip member's local header; the lengths of what follows stand at 26 and 28."""

TEXT = "SU"
"""The kinds of NumPy's dtypes that hold text: bytes and Unicode."""

MEMBER_FAULTS = (
    *(EOFError, KeyError, OSError, RuntimeError, ValueError),
    *(struct.error, zipfile.BadZipFile, zlib.error),
)
"""What reading a zip file of unknown contents may raise."""


@frozen
class Array:
    """An array of an archive."""

    name: str
    dtype: str  # the dtype of the examples, by TensorFlow's name
    shape: tuple[int, ...]  # the shape of the whole array; the first axis counts examples
    stored: np.dtype  # the dtype on disk, which may be of the other byte order
    columns_first: bool  # whether the numbers are in the order that NumPy calls Fortran's
    # The byte of the file at which its numbers begin, or None if TensorFlow cannot read them there.
    offset: int | None

    @property
    def length(self) -> int:
        """How many examples it holds."""
        return self.shape[0]

    @property
    def record_bytes(self) -> int:
        """Bytes of one example."""
        return prod(self.shape[1:]) * self.stored.itemsize


@frozen(eq=False)
class Archive(DataFile):
    """An archive of NumPy arrays."""

    def _in(self, array: str) -> Where:
        return self.at(f"array `{array}`")

    def _open(self) -> zipfile.ZipFile:
        try:
            return ZipArchive(self.path)
        except zipfile.BadZipFile as fault:
            with open_regular(self.path) as file:
                start = file.read(6)
            if start.startswith(b"PK"):
                raise RunError(
                    errors.damaged(self.at(), reason="the archive was cut off: its directory is missing")
                ) from fault
            advice = "write it with `numpy.savez`" if start == b"\x93NUMPY" else None
            what = "this is a single array (.npy)" if advice else "this is no NumPy archive"
            raise RunError(errors.unreadable(self.at(), reason=what, advice=advice)) from fault
        except OSError as fault:
            raise RunError(errors.unreadable(self.at(), reason=system_reason(fault))) from fault
        except MEMBER_FAULTS as fault:
            raise RunError(
                errors.damaged(self.at(), reason=f"its directory cannot be read: {fault}")
            ) from fault

    @contextmanager
    def _reading(self, array: str, what: str = "its numbers") -> Iterator[None]:
        """Raise the RunError of what cannot be read of an array."""
        try:
            yield
        except MEMBER_FAULTS as fault:
            reason = f"{what} cannot be read: {fault}"
            raise RunError(errors.damaged(self._in(array), reason=reason)) from fault

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the arrays in their order."""
        with self._open() as file:
            return tuple(name.removesuffix(".npy") for name in file.namelist() if name.endswith(".npy"))

    def array(self, name: str) -> Array:
        """Read the header of array `name`; raises RunError if its numbers cannot be used."""
        with self._open() as file:
            info = file.getinfo(f"{name}.npy")
            with self._reading(name, "its header"), file.open(info) as member:
                shape, columns_first, dtype = _header(member)
                begin = member.tell()
        kind = "string" if dtype.kind in TEXT else dtype.name
        if kind not in DTYPES and kind != "string":
            advice = "store numbers or text" if dtype.kind in "OV" else None
            raise RunError(
                errors.wrong_kind(self._in(name), found=f"{_kind(dtype)}", wanted="numbers", advice=advice)
            )
        if not shape:
            raise RunError(
                errors.wrong_shape(self._in(name), found="a single number", wanted="an axis of examples")
            )
        size = begin + prod(shape) * dtype.itemsize
        if info.file_size != size:
            self._cut_off(name, info.file_size, size)
        in_place = info.compress_type == zipfile.ZIP_STORED and dtype.isnative and prod(shape) > 0
        columns_first = columns_first and len(shape) > 1
        offset = self._offset(info) + begin if in_place and not columns_first else None
        return Array(name, kind, shape, dtype, columns_first, offset)

    def _cut_off(self, name: str, found: int, wanted: int) -> NoReturn:
        reason = f"holds {found:,} bytes where its header promises {wanted:,}"
        raise RunError(errors.damaged(self._in(name), reason=reason))

    def _offset(self, info: zipfile.ZipInfo) -> int:
        with open_regular(self.path) as file:
            file.seek(info.header_offset + 26)
            name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        return info.header_offset + LOCAL_HEADER + name + extra

    def pieces(self, array: Array, rows: int) -> Iterator[np.ndarray]:
        """Yield the examples of `array`, at most `rows` at a time."""
        native = array.stored.newbyteorder("=")
        with self._member(array) as member:
            if array.columns_first:
                # The examples of such an array lie scattered over all of it.
                whole = np.lib.format.read_array(member, allow_pickle=False)
                for start in range(0, array.length, rows):
                    yield _as_utf8(np.ascontiguousarray(whole[start : start + rows], native))
                return
            _header(member)
            for start in range(0, array.length, rows):
                count = min(rows, array.length - start)
                piece = np.frombuffer(member.read(count * array.record_bytes), array.stored)
                yield _as_utf8(piece.reshape(count, *array.shape[1:]).astype(native))

    def damage(self, array: Array) -> Diagnostic | None:
        """Read all of `array` and say whether its checksum is wrong."""
        return fault_within(self._member(array))

    @contextmanager
    def _member(self, array: Array) -> Iterator[IO[bytes]]:
        with self._reading(array.name), self._open() as file, file.open(f"{array.name}.npy") as member:
            yield member


def _as_utf8(piece: np.ndarray) -> np.ndarray:
    """Return text as UTF-8, in which TensorFlow has it; numbers and bytes are returned as they are."""
    return np.char.encode(piece, "utf-8") if piece.dtype.kind == "U" else piece


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, Fortran order and dtype of the array whose file begins here; raises ValueError."""
    version = np.lib.format.read_magic(member)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(
        version
    )
    if read is None:
        raise ValueError(f"version {version[0]}.{version[1]} of the array format is not read")
    shape, columns_first, dtype = read(member)
    return shape, columns_first, dtype


def _kind(dtype: np.dtype) -> str:
    return {
        "O": "Python objects",
        "V": "records",
        "M": "dates",
        "m": "durations",
    }.get(dtype.kind, dtype.name)


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
            raise RunError(errors.missing_field(where, kind="array", name=name, known=names))
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
        footer = size_of(self.archive.path, self.span) - end
        return tf.data.FixedLengthRecordDataset(
            name_of(self.archive.path), array.record_bytes, array.offset, footer, buffer_size=1 << 20
        )

    def _pieces(self, array: Array) -> Iterator[np.ndarray]:
        return self.noting(self.archive.pieces(array, max(1, PIECE // max(array.record_bytes, 1))))

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
            if self.archive.array(array.name) != array:
                where = self.at(self.archive.path, f"array `{array.name}`")
                return errors.damaged(where, reason="it has changed since it was opened")
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
