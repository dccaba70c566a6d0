"""Opening files for reading: regular files alone, so that no pipe, device or socket keeps a reader waiting.

Every reader of files that others may have put there (specs, includes, maps, histories, manifests, data,
weights) opens them here.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open the regular file `path`, or the one that a symbolic link leads to, for reading bytes.

    Raises OSError, also for what is no regular file; it never waits for somebody to write.
    """
    return open(path, "rb", opener=_open)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of the regular file `path`. Raises OSError as `open_regular` does."""
    with open_regular(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the UTF-8 text of the regular file `path`, its newlines as they are.

    Raises OSError as `open_regular` does, and UnicodeDecodeError.
    """
    return read_regular(path).decode("utf-8")


def strange_kind(mode: int) -> str | None:
    """Return what a file of this `st_mode` is, in words, if it is neither a regular file nor a folder."""
    return next((words for is_kind, words in _KINDS if is_kind(mode)), None)


def _open(path: str, flags: int) -> int:
    _require_regular(os.stat(path).st_mode, path)  # noqa: PTH116 a device is not opened: that alone can act on it
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _require_regular(os.fstat(descriptor).st_mode, path)  # it may have been exchanged meanwhile
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(mode: int, path: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    kind = strange_kind(mode) or "of an unknown kind"
    raise OSError(errno.EINVAL, f"it is {kind}, and only regular files are read", path)
