"""One TFRecord file: how many records it has, and what is wrong with a record."""

from __future__ import annotations

import gzip
import zlib
from functools import cached_property
from pathlib import Path
from struct import unpack
from typing import IO, Self

from attrs import frozen

from compiler.graph.sources.crc32c import crc32c, masked
from compiler.graph.sources.files import GZIP_MAGIC, cannot_open, read_start
from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import running_data as errors
from dsl.errors.running_data import Where
from dsl.source import Span

HEAD = 12
"""Bytes before a record: its length in 8 bytes, and their checksum in 4. A checksum comes after it, too."""
TAIL = 4


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
        """How many records there are; a last one that was cut off counts, so that reading it is an error."""
        try:
            with _opened(self.path, self.compression) as file:
                return _count(file)
        except OSError as fault:
            raise RunError(cannot_open(self.path, fault, self.call)) from fault
        except (EOFError, zlib.error) as fault:
            reason = f"unpacking it fails: {fault}"
            raise RunError(errors.damaged(Where(str(self.path), call=self.call), reason)) from fault

    def record(self, number: int) -> bytes | Diagnostic:
        """Return the bytes of record `number`, or what is wrong with them."""
        try:
            with _opened(self.path, self.compression) as file:
                return self._record(file, number)
        except (OSError, EOFError, zlib.error) as fault:
            return errors.damaged(self.where(number), f"reading it fails: {fault}")

    def _record(self, file: IO[bytes], number: int) -> bytes | Diagnostic:
        for _ in range(number):
            length = file.read(HEAD)[:8]
            file.seek(unpack("<Q", length)[0] + TAIL, 1)
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


def _opened(path: Path, compression: str) -> IO[bytes]:
    if compression == "gzip":
        return gzip.open(path, "rb")  # type: ignore[return-value]  # a file of bytes for all that is done here
    return _ZlibFile(path) if compression == "zlib" else path.open("rb")  # type: ignore[return-value]


class _ZlibFile:
    """A zlib-compressed file as far as counting needs it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._unpacked = zlib.decompressobj()
        self._ready = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        while len(self._ready) < size and (packed := self._file.read(1 << 20)):
            self._ready += self._unpacked.decompress(packed)
        if len(self._ready) < size and not self._unpacked.eof:
            raise EOFError("the file ends before its contents do")
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken

    def seek(self, distance: int, _whence: int) -> None:
        while distance > 0 and (skipped := self.read(min(distance, 1 << 20))):
            distance -= len(skipped)


def _count(file: IO[bytes]) -> int:
    count = 0
    while head := file.read(HEAD):
        count += 1
        if len(head) < HEAD:
            break
        file.seek(unpack("<Q", head[:8])[0] + TAIL, 1)
    return count
