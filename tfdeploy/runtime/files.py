"""Files of a run directory: replaced whole, so that a reader, or the next run, never finds half of one."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dsl.diagnostics import RunError
from dsl.errors import running as errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsl.diagnostics import Diagnostic

PARTIAL = ".partial-"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the name of a file to write to, which takes the place of `path` when the block ends well.

    Raises RunError where the operating system refuses; what was there before is kept then.
    """
    beside = path.with_name(PARTIAL + path.name)
    try:
        yield beside
        sync(beside)
        beside.replace(path)
        sync(path.parent)
    except OSError as fault:
        raise RunError(write_fault(path, fault)) from fault
    finally:
        beside.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Replace the file `path` by one that holds `text`. Raises RunError where it cannot be written."""
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


def remove_partial(directory: Path) -> None:
    """Remove what a run that was killed has left half written."""
    for path in directory.glob(f"{PARTIAL}*"):
        path.unlink(missing_ok=True)
