"""One TFRecord file: how many records it has, and what is wrong with a record."""

from __future__ import annotations

import zlib
from functools import cache, cached_property, lru_cache
from struct import unpack
from typing import IO, Self

from attrs import frozen

from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.files.regular import open_regular
from tfdeploy.data.sources.files import GZIP_MAGIC, DataFile, read_start, reading, unpacked

POLYNOMIAL = 0x82F63B78
MASK_DELTA = 0xA282EAD8
WORD = 0xFFFFFFFF


@cache
def _table() -> tuple[int, ...]:
    def entry(value: int) -> int:
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        return value

    return tuple(entry(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """Return the checksum of `data`; about a third of a second for a megabyte."""
    table, value = _table(), WORD
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ WORD


def masked(checksum: int) -> int:
    """Return `checksum` as it is written into files."""
    return ((checksum >> 15 | checksum << 17) + MASK_DELTA) & WORD


HEAD = 12
"""Bytes before a record: its length in 8 bytes, and their checksum in 4. A checksum comes after it, too."""
TAIL = 4
PIECE = 1 << 20
ENOUGH = 1 << 12
"""The bytes of a packed file from which the beginning of what it holds can be unpacked."""
CUT_OFF = "the file ends within it"


@frozen(eq=False)
class RecordFile(DataFile):
    """A TFRecord file."""

    compression: str  # `none`, `gzip` or `zlib`

    def where(self, number: int) -> Where:
        """Return the place of record `number` (from 0)."""
        return self.at(f"record {number}")

    def check_start(self) -> None:
        """Raise the RunError of a file that is empty or compressed in another way than the spec says."""
        start = read_start(self.path, ENOUGH, self.call)
        if not start:
            raise RunError(errors.empty(self.at(), what="the file is empty"))
        found = _compression(start)
        if found == self.compression or (found is None and self.compression == "none"):
            return
        known = found not in (None, "none")
        reason = f"the file is {'' if known else 'not '}compressed by {found if known else self.compression}"
        advice = f"write `compression = {found}`" if known else "leave out `compression`"
        raise RunError(errors.unreadable(self.at(), reason=reason, advice=None if found is None else advice))

    @cached_property
    def count(self) -> int:
        """How many records there are; raises RunError if the lengths of them do not lead to the file's end.

        TensorFlow may miss that the last is cut off, and takes as much memory as a length says.
        """
        with reading(self.path, self.call), self._open() as file:
            found, reason = _count(file)
        if reason is not None:
            raise RunError(errors.damaged(self.where(found), reason=reason))
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
            with reading(self.path, self.call), self._open() as file:
                return self._record(file, number)
        except RunError as error:
            return error.diagnostic

    def _record(self, file: _Bytes, number: int) -> bytes | Diagnostic:
        length = 0
        for at in range(number + 1):
            length, reason = _length(file.read(HEAD))
            if reason is not None:
                return errors.damaged(self.where(at), reason=reason)
            if at < number and file.skip(length + TAIL) < length + TAIL:
                return errors.damaged(self.where(at), reason=CUT_OFF)
        data, tail = file.read(length), file.read(TAIL)
        if len(tail) < TAIL:
            return errors.damaged(self.where(number), reason=CUT_OFF)
        if masked(crc32c(data)) != unpack("<I", tail)[0]:
            return errors.damaged(self.where(number), reason="the checksum of its bytes is wrong")
        return data


class _Bytes:
    """A file that is read and skipped forward, without reading if its `size` is given."""

    def __init__(self, file: IO[bytes], size: int | None = None) -> None:
        self._file = file
        self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, fewer only at the end; takes no more memory than there are bytes."""
        pieces = []
        while size > 0 and (piece := self._file.read(min(size, PIECE))):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

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
        """Return up to `size` unpacked bytes; raises EOFError if the packed ones end too early."""
        while len(self._ready) < size and (packed := self._file.read(PIECE)):
            self._ready += self._unpacking.decompress(packed)
        if len(self._ready) < size and not self._unpacking.eof:
            raise EOFError("the file ends before its contents do")
        taken, self._ready = self._ready[:size], self._ready[size:]
        return taken


def _compression(start: bytes) -> str | None:
    """Return how a file is packed, by its beginning; None if nothing begins like it."""
    if _length(start[:HEAD])[1] is None:
        return "none"  # though a length can begin like gzip
    if start.startswith(GZIP_MAGIC):
        return "gzip"
    try:
        zlib.decompressobj().decompress(start, HEAD)
    except zlib.error:
        return None
    return "zlib"


def _count(file: _Bytes) -> tuple[int, str | None]:
    """Return how many whole records there are, and what is wrong with what comes after them, if anything."""
    count = 0
    while head := file.read(HEAD):
        length, reason = _length(head)
        if reason is not None:
            return count, reason
        if file.skip(length + TAIL) < length + TAIL:
            return count, CUT_OFF
        count += 1
    return count, None


@lru_cache(maxsize=1 << 12)  # the records of many files have few lengths
def _length(head: bytes) -> tuple[int, str | None]:
    """Return the length that stands before a record, or what is wrong with `head`, which holds it."""
    if len(head) < HEAD:
        return 0, CUT_OFF
    length, checksum = unpack("<QI", head)
    right = masked(crc32c(head[:8])) == checksum
    return (length, None) if right else (0, "the checksum of its length is wrong")
