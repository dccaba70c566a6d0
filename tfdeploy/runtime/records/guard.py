"""Whether the run directory is still the one that the run has begun in, under its name.

A folder can be renamed or removed while a run writes into it. An open file does not notice, and a folder that
is made again under the same name is another run's, or nobody's. So the run holds its directory open, and
compares before each write.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import frozen

from dsl.diagnostics import RunError
from dsl.errors import running as errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.source import Span

OPEN_FILES = Path("/proc/self/fd")
"""Where Linux tells what has become of the names of open files."""


@frozen
class DirectoryGuard:
    """The run directory `path`, held open by `descriptor`; `span` is where the spec names it."""

    path: Path
    descriptor: int
    span: Span | None = None

    def require(self) -> None:
        """Raise RunError if the directory was renamed, removed or replaced; it says where it is now."""
        if not is_open_as(self.path, self.descriptor):
            raise RunError(errors.directory_gone(str(self.path), self._now(), self.span))

    def require_file(self, path: Path, descriptor: int) -> None:
        """Raise RunError if the directory, or the open file in it that was `path`, is not there any more."""
        self.require()
        if not is_open_as(path, descriptor):
            raise RunError(errors.file_gone(str(path), self.span))

    def _now(self) -> str | None:
        """Return where the directory is now, None if it was removed or nobody knows."""
        try:
            found = (OPEN_FILES / str(self.descriptor)).readlink()
        except OSError:
            return None
        return str(found) if is_open_as(found, self.descriptor) else None


@contextmanager
def guard_directory(path: Path, span: Span | None = None) -> Iterator[DirectoryGuard]:
    """Hold the directory `path` open. Raises RunError if that cannot be."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise RunError(errors.directory_unusable(str(path), reason, span)) from fault
    try:
        yield DirectoryGuard(path, descriptor, span)
    finally:
        os.close(descriptor)


def is_open_as(path: Path, descriptor: int) -> bool:
    """Whether `path` is the very file or folder that `descriptor` has open."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False
