"""Whose a folder is: a run has its directory to itself, marks it, and notices if it is moved or removed.

The lock is the operating system's, on an open file, so it ends with the process that holds it, however
that process ends.

A directory can be renamed or removed while a run writes into it. An open file does not notice, and a
directory that is made again under the same name may belong to another run. So the run holds its directory
open, and compares it with what is found under its name before each write.

A run marks its directory with a small file. Versions before that left none; their directories are known
by what nobody else writes: `result.json` of a run, the manifest of a checkpoint, or a placement map
beside `spec.tfdeploy`.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import define, frozen

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files.atomic import is_partial
from dsl.files.regular import read_text, system_reason
from dsl.source import Span

NAME = ".lock"
LONGEST = 32
_HOW = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


@define
class Lock:
    """The open lock file of a run directory."""

    descriptor: int | None  # its descriptor; None once it has been closed
    is_held: bool = False

    def release(self) -> None:
        """Release the lock and close the file, unless that has been done before."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            if self.is_held:
                os.ftruncate(descriptor, 0)
            os.close(descriptor)


def unusable(directory: Path, span: Span | None, reason: str) -> RunError:
    """Return the error about a run directory that cannot be used."""
    return RunError(errors.directory_unusable(span, directory=str(directory), reason=reason))


@contextmanager
def usable(directory: Path, span: Span | None) -> Iterator[None]:
    """Turn what the operating system refuses within into a RunError about a run directory."""
    try:
        yield
    except OSError as fault:
        raise unusable(directory, span, system_reason(fault)) from fault


@contextmanager
def locked(directory: Path, span: Span | None = None) -> Iterator[Lock]:
    """Hold the lock of `directory` during the block, unless it is released before.

    Raises:
        RunError: If another process holds the lock, which is named, or the lock file cannot be used.
    """
    try:
        descriptor = os.open(directory / NAME, _HOW, 0o644)
    except OSError as fault:
        reason = "is a symbolic link" if fault.errno == errno.ELOOP else system_reason(fault)
        raise unusable(directory, span, f"`{NAME}`: {reason}") from fault
    lock = Lock(descriptor)
    try:
        if not _is_lock(descriptor):
            raise unusable(directory, span, f"`{NAME}`: is no lock of a run")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            raise RunError(
                errors.directory_in_use(span, directory=str(directory), process=_holder(descriptor))
            ) from held
        lock.is_held = True
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # on a full disk the lock is held without the number of its process
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield lock
    finally:
        lock.release()


LOCKS = Path("/proc/locks")


def is_held(directory: Path) -> bool:
    """Whether a process holds the lock of a run directory, which is not touched to find that out."""
    try:
        inode = f":{(directory / NAME).stat().st_ino}"
        lines = map(str.split, LOCKS.read_text().splitlines())
        return any("FLOCK" in words and any(each.endswith(inode) for each in words) for words in lines)
    except OSError:
        return False


def _is_lock(descriptor: int) -> bool:
    """Whether an open file is regular, and is empty or names a process. No other file may be emptied."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return False
    text = _content(descriptor)
    return not text or (len(text) < LONGEST and text.isdigit())


def _holder(descriptor: int) -> int | None:
    text = _content(descriptor)
    return int(text) if text.isdigit() else None


def _content(descriptor: int) -> str:
    return os.pread(descriptor, LONGEST, 0).decode("ascii", "replace").strip()


OPEN_FILES = Path("/proc/self/fd")
"""The folder in which Linux lists the present names of open files."""


@frozen
class DirectoryGuard:
    """The run directory, which is held open so that it is noticed if it is moved or removed."""

    path: Path
    descriptor: int
    span: Span | None = None

    def require(self) -> None:
        """Raise RunError if the directory was renamed, removed or replaced."""
        if not is_open_as(self.path, self.descriptor):
            raise RunError(errors.directory_gone(self.span, directory=str(self.path), now=self._now()))

    def require_file(self, path: Path, descriptor: int) -> None:
        """Raise RunError if the directory, or the open file `path` in it, was renamed or removed."""
        self.require()
        if not is_open_as(path, descriptor):
            raise RunError(errors.file_gone(self.span, path=str(path)))

    def _now(self) -> str | None:
        """Return the present path of the directory; None if it was removed or the path is not known."""
        try:
            found = (OPEN_FILES / str(self.descriptor)).readlink()
        except OSError:
            return None
        return str(found) if is_open_as(found, self.descriptor) else None


@contextmanager
def guard_directory(path: Path, span: Span | None = None) -> Iterator[DirectoryGuard]:
    """Hold the directory `path` open during the block; raises RunError if the directory cannot be opened."""
    with usable(path, span):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield DirectoryGuard(path, descriptor, span)
    finally:
        os.close(descriptor)


def is_open_as(path: Path, descriptor: int) -> bool:
    """Whether `path` names the file or folder that `descriptor` has open."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


MARKER = ".tfdeploy-run"
MARKER_TEXT = "Runs of tfdeploy keep their files in this folder, and remove from it those of earlier runs.\n"
_UNOWNED = frozenset({NAME, "lost+found"})
"""Names that do not count in an otherwise empty folder: a lock, and the folder of a new file system."""

OF_PROFILE = {"format_version", "machine", "op_start", "hand_over", "ops", "links"}


def is_marked(folder: Path) -> bool:
    """Whether a run has marked the folder as its own."""
    return (folder / MARKER).is_file()


def foreign_names(folder: Path) -> list[str]:
    """Return the sorted names of the files of others in a folder without a marker; raises OSError."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if name not in _UNOWNED and not is_partial(name, MARKER)]


def is_json_object(path: Path, keys: set[str]) -> bool:
    """Whether a file is a JSON object with these keys."""
    try:
        found: Any = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and keys <= found.keys()


_NAME = re.compile(r"events\.out\.tfevents\.\d+\.\d+")


def new_events_name() -> str:
    """Return a new name for a file of events, made of the time and the number of this process."""
    return f"events.out.tfevents.{time.time_ns():019d}.{os.getpid()}"


def is_events_file(name: str) -> bool:
    """Whether `name` has the form that `new_events_name` returns."""
    return _NAME.fullmatch(name) is not None
