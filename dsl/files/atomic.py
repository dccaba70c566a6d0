"""Files that are written whole or not at all, so that neither a reader nor a later start finds a part of one.

A file is written under a temporary name in the folder of its target, and gets the name of the target when it
is complete and on the disk. Temporary names begin with `.partial-` and have a random part: two processes
never write to the same file, and nobody can put a link there beforehand.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL = ".partial-"
KEPT = 50  # letters, which have up to four bytes each
FOLDER = ".folder"
"""Ends the name of a folder with parts of a file that is being written."""

_PARTIAL = re.compile(rf"{re.escape(PARTIAL)}(?:[0-9a-f]{{8}}-)?(?P<name>.+)")
_PERMISSIONS = 0o666
"""What a new file allows, less what the umask of the process takes away."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty file to write to, which replaces `path` when the block ends without an error.

    The new file has the permissions of the earlier one, from its first byte. If `path` is a symbolic link,
    the link itself is replaced; see `link_target`.

    Raises:
        OSError: The operating system refuses. The earlier file is kept then.
    """
    beside = temporary_name(path)
    permissions = _permissions(path)
    _make(beside, _PERMISSIONS if permissions is None else permissions)
    try:
        if permissions not in {None, _permissions(beside)}:  # the umask has taken some away
            beside.chmod(permissions)
        yield beside
        sync(beside)
        beside.replace(path)
        sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file `path`, or make it, as `replacing` does."""
    with replacing(path) as beside:
        beside.write_bytes(content)


def create_private_file(path: Path, content: bytes) -> None:
    """Make a file that only this user can read; one that is there, or that another process makes, is kept."""
    beside = temporary_name(path)
    _make(beside, stat.S_IRUSR | stat.S_IWUSR)
    try:
        beside.write_bytes(content)
        sync(beside)
        with suppress(FileExistsError):
            path.hardlink_to(beside)  # which, unlike `replace`, leaves a file alone that is already there
        sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def link_target(path: Path) -> Path:
    """Return the file to write if the user names `path`: a symbolic link is kept, and its target written.

    A link that another user has put into a shared folder such as `/tmp` is not followed, because it could
    lead to a file of this user. Linux has the same rule (`fs.protected_symlinks`), but replacing a file under
    its real name would evade it.

    Raises:
        OSError: It is such a link, or links lead in a circle.
    """
    if not path.is_symlink():
        return path
    folder, owner = path.parent.stat(), path.lstat().st_uid
    is_shared = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if is_shared and owner not in {os.geteuid(), folder.st_uid}:
        raise PermissionError(errno.EACCES, "it is a link of another user in a shared folder", str(path))
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def temporary_name(path: Path) -> Path:
    """Return a unique name beside `path`, under which a file is written before it is renamed.

    It has the end of the name alone, so that it is no longer than names can be.
    """
    return path.with_name(f"{PARTIAL}{secrets.token_hex(4)}-{path.name[-KEPT:]}")


def sync(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partial(directory: Path, is_own: Callable[[str], bool]) -> None:
    """Remove the incomplete files that a killed process has left, and the folders of their parts."""
    for path in directory.glob(f"{PARTIAL}*"):
        is_folder = path.is_dir() and not path.is_symlink()
        found = _PARTIAL.fullmatch(path.name.removesuffix(FOLDER) if is_folder else path.name)
        if found is None or not is_own(found["name"]):
            continue
        if is_folder:
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_partial(name: str, of: str) -> bool:
    """Whether `name` is a temporary name of the file `of`; see `temporary_name`."""
    found = _PARTIAL.fullmatch(name)
    return found is not None and found["name"] == of


def _make(path: Path, permissions: int) -> None:
    """Make an empty file where there is nothing yet, not even a link; the umask takes permissions away."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, permissions))


def _permissions(path: Path) -> int | None:
    """Return the permissions of a regular file, or None if there is none."""
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    return found & 0o777 if stat.S_ISREG(found) else None
