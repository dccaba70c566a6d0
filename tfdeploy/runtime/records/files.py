"""Files of a run, replaced as a whole (see `dsl/files/atomic.py`); what goes wrong becomes a diagnostic."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dsl.diagnostics import RunError
from dsl.errors import running as errors
from dsl.files import atomic
from dsl.files.regular import system_reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsl.diagnostics import Diagnostic

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The errors of the operating system that say that there is no room."""


@contextmanager
def replacing(path: Path, *, follow: bool = False) -> Iterator[Path]:
    """Yield an empty file to write to, which replaces `path` when the block ends without an error.

    Args:
        path: The file. Its folder must exist.
        follow: Whether a symbolic link is kept and the file to which it leads is replaced, as users expect it
            of files that they name.

    Raises:
        RunError: If the operating system refuses. The earlier file is kept then.
    """
    with writing(path), atomic.replacing(atomic.link_target(path) if follow else path) as beside:
        yield beside


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the operating system refuses within into the RunError about a file that cannot be written."""
    try:
        yield
    except OSError as fault:
        raise RunError(write_fault(path, fault)) from fault


def write_atomically(path: Path, text: str, *, follow: bool = False) -> None:
    """Replace the file `path` by one with the content `text`.

    Args:
        path: The file. Its folder must exist.
        text: The whole content, written as UTF-8. Bytes of names that are no UTF-8 are written as escapes.
        follow: Whether a symbolic link is kept and the file to which it leads is replaced.

    Raises:
        RunError: The file cannot be written.
    """
    with replacing(path, follow=follow) as beside:
        beside.write_bytes(text.encode(errors="backslashreplace"))


def write_fault(path: Path, fault: OSError) -> Diagnostic:
    """Return the diagnostic about a file of the run that could not be written.

    Args:
        path: The file.
        fault: The error of the operating system.
    """
    return errors.cannot_write(path=str(path), reason=system_reason(fault), full=fault.errno in FULL)
