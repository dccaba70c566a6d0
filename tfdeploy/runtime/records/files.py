"""Files of a run directory: replaced whole, so that a reader, or the next run, never finds half of one."""

from __future__ import annotations

import errno
import os
import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dsl.diagnostics import RunError
from dsl.errors.running import running as errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dsl.diagnostics import Diagnostic

PARTIAL = ".partial-"
_PARTIAL = re.compile(rf"{re.escape(PARTIAL)}(?:[0-9a-f]{{8}}-)?(?P<name>.+)")
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name of a file to write to, which takes the place of `path` when the block ends well.

    Raises RunError if the operating system refuses; what was there before is kept then.
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
    """Return a name beside `path` that no other file has, under which to write what will be `path`."""
    return path.with_name(f"{PARTIAL}{secrets.token_hex(4)}-{path.name}")


def write_atomically(path: Path, text: str) -> None:
    """Replace the file `path` by one that holds `text`. Raises RunError if it cannot be written."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_fault(path: Path, fault: OSError, last_good: int | None = None) -> Diagnostic:
    """Say why a file of the run could not be written."""
    reason = (fault.strerror or str(fault)).lower()
    return errors.cannot_write(str(path), reason, last_good, full=fault.errno in FULL)


def remove_partial(directory: Path, is_own: Callable[[str], bool]) -> None:
    """Remove what a run that was killed has left half written of files that `is_own` knows by their names."""
    for path in directory.glob(f"{PARTIAL}*"):
        found = _PARTIAL.fullmatch(path.name)
        if found is not None and is_own(found["name"]):
            path.unlink(missing_ok=True)


def is_partial(name: str, of: str) -> bool:
    """Whether `name` is one under which the file `of` is written before it is whole."""
    found = _PARTIAL.fullmatch(name)
    return found is not None and found["name"] == of
