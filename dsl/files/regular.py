"""Opening regular files for reading. Pipes, devices and sockets are refused, because they could block.

Every file that somebody else may have put there (specs, includes, maps, histories, manifests, data, weights)
is opened with these functions.
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
    """Open a regular file for reading bytes, without ever blocking.

    Raises:
        OSError: If the file cannot be opened or is not a regular file.
    """
    return open(path, "rb", opener=_open)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a regular file.

    Raises:
        OSError: If the file cannot be read or is not a regular file.
    """
    with open_regular(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the UTF-8 text of a regular file; newlines are not converted.

    Raises:
        OSError: If the file cannot be read or is not a regular file.
        UnicodeDecodeError: If the file is not UTF-8.
    """
    return read_regular(path).decode("utf-8")


def system_reason(fault: OSError) -> str:
    """Return what the operating system says of a file that it refuses, in words within a sentence."""
    return (fault.strerror or str(fault)).lower()


def is_text(name: str) -> bool:
    """Whether the name of a file is UTF-8, as TensorFlow and the texts of specs need it."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def strange_kind(mode: int) -> str | None:
    """Describe the kind of a file that is neither a regular file nor a folder.

    Returns:
        `a pipe`, `a device` or `a socket`, or None for regular files, folders and unknown kinds.
    """
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
