"""Files that are replaced as a whole, so that neither a reader nor the next run finds an incomplete one."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dsl.diagnostics import RunError
from dsl.errors.running import running as errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dsl.diagnostics import Diagnostic

PARTIAL = ".partial-"
FOLDER = ".folder"  # ends the name of a folder with parts of a file that is being written
_PARTIAL = re.compile(rf"{re.escape(PARTIAL)}(?:[0-9a-f]{{8}}-)?(?P<name>.+)")
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a file to write to, which replaces `path` when the block ends without an error.

    Raises:
        RunError: If the operating system refuses. The earlier file is kept then.
    """
    beside = temporary_name(path)
    try:
        yield beside
        sync(beside)
        beside.replace(path)
        sync(path.parent)
    except OSError as fault:
        raise RunError(write_fault(path, fault)) from fault
    finally:
        beside.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """Return a unique name beside `path`, under which a file is written before it is renamed."""
    return path.with_name(f"{PARTIAL}{secrets.token_hex(4)}-{path.name}")


def write_atomically(path: Path, text: str) -> None:
    """Replace the file `path` by one with the content `text`.

    Args:
        path: The file. Its folder must exist.
        text: The whole content, written as UTF-8.

    Raises:
        RunError: The file cannot be written.
    """
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Wait until a file, or the list of files of a folder, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_fault(path: Path, fault: OSError, last_good: int | None = None) -> Diagnostic:
    """Return the diagnostic about a file of the run that could not be written.

    Args:
        path: The file.
        fault: The error of the operating system.
        last_good: The step of the newest checkpoint, if there is one.
    """
    reason = (fault.strerror or str(fault)).lower()
    return errors.cannot_write(str(path), reason, last_good, full=fault.errno in FULL)


def remove_partial(directory: Path, is_own: Callable[[str], bool]) -> None:
    """Remove the incomplete files that a killed run has left, and the folders of their parts.

    Args:
        directory: The folder of the files.
        is_own: Whether a run writes files of a name.
    """
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
    """Whether `name` is a temporary name of the file `of`; see `temporary_name`.

    Args:
        name: The name of a file, without its folder.
        of: The name of the file that it would replace, without its folder.
    """
    found = _PARTIAL.fullmatch(name)
    return found is not None and found["name"] == of
