"""Finding and opening data files, with a located fault for whatever can be wrong with that."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import IO, cast

from attrs import frozen

from dsl.diagnostics import Diagnostic, RunError
from dsl.errors import data as errors
from dsl.errors.data import Where
from dsl.files.regular import is_glob, is_there, matches, open_regular, strange_kind, system_reason
from dsl.source import Span
from dsl.suggest import nearest

GZIP_MAGIC = b"\x1f\x8b"
PIECE = 1 << 20


def name_of(path: Path) -> bytes:
    """Return the name under which TensorFlow opens a file, whatever folder its process runs in."""
    return os.fsencode(path.absolute())  # a name need not be text


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts `part-2` before `part-10`."""
    return [
        (0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part)
        for part in re.split(r"([0-9]+)", name)
        if part
    ]


def find_columns(pattern: str, names: Sequence[str], where: Where) -> list[int]:
    """Return the numbers of the columns that a name or a glob names.

    Those of a glob are in the order of the file, or, if they differ only in numbers, of the numbers.

    Raises:
        RunError: Two columns bear the name.
    """
    found = [at for at, name in enumerate(names) if name == pattern]
    if len(found) > 1:
        raise RunError(errors.header(where, reason=f"there are {len(found)} columns `{pattern}`"))
    if not found and any(sign in pattern for sign in "*?["):
        found = [at for at, name in enumerate(names) if fnmatchcase(name, pattern)]
    chosen = [names[at] for at in found]
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise RunError(errors.header(where, reason=f"there are {chosen.count(twice)} columns `{twice}`"))
    numbered = len({re.sub("[0-9]+", "0", name) for name in chosen}) == 1
    return sorted(found, key=lambda at: natural_key(names[at])) if numbered else found


def find_files(pattern: str, base: Path, call: Span | None) -> tuple[Path, ...]:
    """Return the files that a path or a glob, relative to `base`, names; those of a glob in natural order.

    Raises:
        RunError: A path is not there or is a folder, or a glob matches nothing.
    """
    path = base / pattern
    if is_there(path):
        _require_file(path, call)
        return (path,)
    matching = [each for each in matches(base, pattern) if each.is_file()]
    if not matching:
        near = None if is_glob(pattern) else _similar(path, Path.is_file)
        raise RunError(errors.missing(Where(str(path), call=call), nearest=near))
    return tuple(sorted(matching, key=lambda each: natural_key(str(each))))


def _require_file(path: Path, call: Span | None) -> None:
    """Raise RunError for a folder, and for what would keep a reader waiting."""
    where = Where(str(path), call=call)
    if path.is_dir():
        advice = "name the files in it, `*` for any part of a name"
        raise RunError(errors.unreadable(where, reason="this is a folder, not a file", advice=advice))
    kind = strange_kind(path.stat().st_mode)
    if kind is not None:
        raise RunError(errors.unreadable(where, reason=f"this is {kind}, not a file"))


def find_folder(name: str, base: Path, call: Span | None) -> Path:
    """Return the folder `name`, relative to `base`."""
    path = base / name
    if is_there(path) and path.is_dir():
        return path
    where = Where(str(path), call=call)
    if is_there(path):
        raise RunError(errors.unreadable(where, reason="this is a file, not a folder"))
    raise RunError(errors.missing(where, nearest=_similar(path, Path.is_dir), folder=True))


def _similar(path: Path, is_wanted: Callable[[Path], bool]) -> str | None:
    """Return the most similar name beside `path`, of those whose kind is wanted; None if there is none."""
    try:
        names = [each.name for each in path.parent.iterdir() if is_wanted(each)]
    except OSError:
        return None
    return nearest(path.name, names)


def read_start(path: Path, size: int, call: Span | None) -> bytes:
    """Return the first `size` bytes of a file as it is on disk."""
    with reading(path, call), open_regular(path) as file:
        return file.read(size)


class _Unpacked(gzip.GzipFile):
    """What a file holds that gzip packed; the file is closed with it."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._packed = file

    def close(self) -> None:
        """Close both."""
        super().close()
        self._packed.close()


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """Return the bytes that gzip packed into `file`, which is closed with what is returned."""
    return cast("IO[bytes]", _Unpacked(file))


@contextmanager
def reading(path: Path, call: Span | None) -> Iterator[None]:
    """Turn what reading a file within may raise into a RunError: it is refused, or damaged."""
    where = Where(str(path), call=call)
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        reason = str(fault)[:1].lower() + str(fault)[1:]
        raise RunError(errors.damaged(where, reason=f"unpacking it fails: {reason}")) from fault
    except OSError as fault:
        raise RunError(errors.unreadable(where, reason=system_reason(fault))) from fault


def size_of(path: Path, call: Span | None) -> int:
    """Return the bytes of a file on disk."""
    with reading(path, call):
        return path.stat().st_size


def fault_within(opened: AbstractContextManager[IO[bytes]]) -> Diagnostic | None:
    """Read all of a file; return the diagnostic if that fails."""
    try:
        with opened as file:
            while file.read(PIECE):
                pass
    except RunError as error:
        return error.diagnostic
    return None


@frozen(eq=False)
class DataFile:
    """A file with examples."""

    path: Path
    call: Span | None  # where the spec names it

    def at(self, place: str = "") -> Where:
        """Return a place in the file for messages."""
        return Where(str(self.path), place, call=self.call)


@frozen(eq=False)
class PackedFile(DataFile):
    """A file that gzip may have packed, which is read again by each method that needs it."""

    @cached_property
    def compressed(self) -> bool:
        """Whether the file is a gzip file."""
        return read_start(self.path, len(GZIP_MAGIC), self.call) == GZIP_MAGIC

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open what the file holds; raises RunError if it cannot be read."""
        with reading(self.path, self.call):
            file = open_regular(self.path)
            with unpacked(file) if self.compressed else file as held:
                yield held
