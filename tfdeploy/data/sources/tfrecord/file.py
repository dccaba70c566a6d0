"""One TFRecord file: how many records it has, and what is wrong with a record."""

from __future__ import annotations

import zlib
from functools import cached_property
from pathlib import Path
from struct import unpack
from typing import IO, Self

from attrs import frozen

from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import running_data as errors
from dsl.errors.running_data import Where
from dsl.regular import open_regular
from dsl.source import Span
from tfdeploy.data.sources.files import GZIP_MAGIC, READ_FAULTS, read_fault, read_start, unpacked
from tfdeploy.data.sources.tfrecord.crc32c import crc32c, masked

HEAD = 12
"""Bytes before a record: its length in 8 bytes, and their checksum in 4. A checksum comes after it, too."""
TAIL = 4
PIECE = 1 << 20


@frozen(slots=False, eq=False)
class RecordFile:
    """The file at `path`; `compression` is none, gzip or zlib, `call` the source in the spec."""

    path: Path
    compression: str
    call: Span | None

    @property
    def tensorflow_compression(self) -> str:
        """The compression by TensorFlow's name."""
        return "" if self.compression == "none" else self.compression.upper()

    def where(self, number: int) -> Where:
        """Return the place of record `number` (from 0)."""
        return Where(str(self.path), f"record {number}", call=self.call)

    def check_start(self) -> None:
        """Raise the RunError of a file that is empty or compressed in another way than the spec says."""
        start = read_start(self.path, 2, self.call)
        whole = Where(str(self.path), call=self.call)
        if not start:
            raise RunError(errors.empty(whole, "the file is empty"))
        packed = start == GZIP_MAGIC
        if packed != (self.compression == "gzip"):
            reason = "the file is compressed by gzip" if packed else "the file is not compressed by gzip"
            advice = "write `compression = gzip`" if packed else "leave out `compression`"
            raise RunError(errors.unreadable(whole, reason, advice=advice))

    @cached_property
    def count(self) -> int:
        """How many records there are; raises RunError where the last, as TensorFlow may miss, is cut off."""
        try:
            with self._open() as file:
                found, whole = _count(file)
        except READ_FAULTS as fault:
            raise RunError(read_fault(self.path, fault, self.call)) from fault
        last = None if whole else self.record(found)
        if isinstance(last, Diagnostic):
            raise RunError(last)
        return found

    def _open(self) -> _Bytes:
        if self.compression == "gzip":
            return _Bytes(unpacked(open_regular(self.path)))
        if self.compression == "zlib":
            return _Unpacked(open_regular(self.path))
        return _Bytes(open_regular(self.path), self.path.stat().st_size)

    def record(self, number: int) -> bytes | Diagnostic:
        """Return the bytes of record `number`, or what is wrong with them."""
        try:
            with self._open() as file:
                return self._record(file, number)
        except READ_FAULTS as fault:
            return read_fault(self.path, fault, self.call)

    def _record(self, file: _Bytes, number: int) -> bytes | Diagnostic:
        for _ in range(number):
            length = file.read(HEAD)[:8]
            file.skip(unpack("<Q", length)[0] + TAIL)
        head = file.read(HEAD)
        if len(head) < HEAD or masked(crc32c(head[:8])) != unpack("<I", head[8:])[0]:
            reason = "the checksum of its length is wrong" if len(head) == HEAD else "the file ends within it"
            return errors.damaged(self.where(number), reason)
        data, tail = file.read(unpack("<Q", head[:8])[0]), file.read(TAIL)
        if len(tail) < TAIL:
            return errors.damaged(self.where(number), "the file ends within it")
        if masked(crc32c(data)) != unpack("<I", tail)[0]:
            return errors.damaged(self.where(number), "the checksum of its bytes is wrong")
        return data


class _Bytes:
    """A file that is read and skipped forward, without reading where its `size` is given."""

    def __init__(self, file: IO[bytes], size: int | None = None) -> None:
        self._file = file
        self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, fewer only at the end."""
        return self._file.read(size)

    def skip(self, distance: int) -> int:
        """Go forward, at most to the end, and return how far."""
        if self._size is not None:
            start = self._file.tell()
            return self._file.seek(min(start + distance, self._size)) - start
        gone = 0
        while gone < distance and (skipped := self.read(min(distance - gone, PIECE))):
            gone += len(skipped)
        return gone


class _Unpacked(_Bytes):
    """A file that zlib packed."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(file)
        self._unpacking = zlib.decompressobj()
        self._ready = b""

    def read(self, size: int) -> bytes:
        """Return up to `size` unpacked bytes; raises EOFError where the packed ones end too early."""
        while len(self._ready) < size and (packed := self._file.read(PIECE)):
            self._ready += self._unpacking.decompress(packed)
        if len(self._ready) < size and not self._unpacking.eof:
            raise EOFError("the file ends before its contents do")
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken


def _count(file: _Bytes) -> tuple[int, bool]:
    """Return how many whole records there are, and whether nothing else comes after them."""
    count = 0
    while head := file.read(HEAD):
        length = unpack("<Q", head[:8])[0] + TAIL if len(head) == HEAD else 1
        if file.skip(length) < length:
            return count, False
        count += 1
    return count, True
