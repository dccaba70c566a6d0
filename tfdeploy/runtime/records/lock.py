"""One run at a time in a run directory.

The lock is the operating system's, on an open file: it goes with the process that holds it, however that
ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dsl.diagnostics import RunError
from dsl.errors import running as errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsl.source import Span

NAME = ".lock"
LONGEST = 32
_HOW = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def locked(directory: Path, span: Span | None = None) -> Iterator[None]:
    """Hold the lock of `directory`.

    Raises:
        RunError: If another process holds the lock, which is named, or the lock file cannot be used.
    """
    try:
        descriptor = os.open(directory / NAME, _HOW, 0o644)
    except OSError as fault:
        reason = (
            "is a symbolic link" if fault.errno == errno.ELOOP else (fault.strerror or str(fault)).lower()
        )
        raise RunError(errors.directory_unusable(str(directory), f"`{NAME}`: {reason}", span)) from fault
    try:
        if not _is_lock(descriptor):
            reason = f"`{NAME}`: is no lock of a run"
            raise RunError(errors.directory_unusable(str(directory), reason, span))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as held:
            raise RunError(errors.directory_in_use(str(directory), _holder(descriptor), span)) from held
        os.ftruncate(descriptor, 0)
        with suppress(OSError):  # on a full disk it is held all the same, by nobody knows whom
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _is_lock(descriptor: int) -> bool:
    """Whether an open file is a regular one that is empty or names a process: no other file is emptied."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        return False
    text = os.pread(descriptor, LONGEST, 0).decode("ascii", "replace").strip()
    return not text or (len(text) < LONGEST and text.isdigit())


def _holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, LONGEST, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
