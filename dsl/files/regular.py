"""Regular files, opened for reading, and paths. Pipes, devices and sockets are refused: they could block.

Every file that somebody else may have put there (specs, includes, maps, histories, manifests, data, weights)
is opened with these functions. Of paths that may be globs, a file of exactly this name comes first, so that
`a[1].csv` names itself if it is there. The folder of the spec is never part of a glob, whatever it is called.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading bytes, without blocking; raises OSError for anything else."""
    return open(path, "rb", opener=_open)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a regular file."""
    with open_regular(path) as file:
        return file.read()


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the UTF-8 text of a regular file as it is; raises UnicodeDecodeError if it is none."""
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
    """Return `a pipe`, `a device` or `a socket`; None for regular files, folders and unknown kinds."""
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


# --- paths, which may be globs: what they name, their absolute form, and what is no path ------------------


SIGNS = "*?["
_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")


def scheme_of(text: str) -> str | None:
    """Return the scheme of an address such as `gs://bucket/x`, which is no path; None for a path."""
    found = _ADDRESS.match(text)
    return None if found is None else found[1]


def is_glob(text: str) -> bool:
    """Whether a text has signs of a glob."""
    return any(sign in text for sign in SIGNS)


def is_there(path: Path) -> bool:
    """Whether there is a file or folder of this name; not if its name is longer than names can be."""
    return os.path.exists(path)  # noqa: PTH110 Path.exists raises OSError for such a name


def matches(base: Path, written: str) -> list[Path]:
    """Return what a path or glob names, without an order."""
    if is_there(base / written):
        return [base / written]
    if not is_glob(written):
        return []
    import glob  # imported here because most specs do not need it

    return list(map(Path, glob.glob(str(base / written) if _alone(written) else _within(base, written))))  # noqa: PTH207 absolute ones, too


def absolute(base: Path, written: str) -> str:
    """Return a path or glob that names the same from every folder."""
    if _alone(written) or not is_glob(written) or is_there(base / written):
        return str(base / written)
    return _within(base, written)


def as_argument(path: str) -> str:
    """Return a path that no command takes for one of its options."""
    return f"./{path}" if path.startswith("-") else path


def _alone(written: str) -> bool:
    return Path(written).is_absolute()


def _within(base: Path, written: str) -> str:
    import glob

    return str(Path(glob.escape(str(base))) / written)


# --- the user's cache folder, which has what takes long to make and can be made again ---------------------


def cache_file(name: str) -> Path | None:
    """Return a file in the user's cache folder, or None if the user has no folder that can be written to.

    Files from which code is loaded are kept here and in no shared folder: whoever can write to them could run
    code as the user.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfdeploy"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError if there is no home
        return None
    return folder / name if os.access(folder, os.W_OK) else None
