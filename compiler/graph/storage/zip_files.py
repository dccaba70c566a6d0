"""Zip archives from strangers: regular files, with members that do not swell when they are unpacked."""

from __future__ import annotations

import zipfile
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from dsl.files.regular import open_regular

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_UNASKED = 1 << 26
"""Bytes that a member may always have when it is unpacked, however little it takes in the file."""

MOST_TIMES = 200
"""How many times its size in the file a larger member may have: deflate reaches 1,000, weights not 10."""


class SwellingError(zipfile.BadZipFile):
    """A member is so much larger unpacked than packed that nothing but a trap is."""


class ZipArchive(zipfile.ZipFile):
    """The archive `path`, open for reading; closed, it closes its file.

    Raises OSError for what is no regular file, zipfile.BadZipFile for what is no archive, and
    SwellingError when a member out of all proportion is opened.
    """

    _file: BinaryIO | None = None  # also where it could not be opened: what is collected is closed

    def __init__(self, path: Path) -> None:
        self._file = open_regular(path)
        try:
            super().__init__(self._file)
        except BaseException:
            self._file.close()
            raise

    def open(self, name: str | zipfile.ZipInfo, *more: Any, **options: Any) -> IO[bytes]:
        """Open a member. Raises KeyError where there is none, SwellingError where it swells."""
        info = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        require_proportion(info.file_size, info.compress_size)
        return super().open(info, *more, **options)

    def close(self) -> None:
        """Close the archive and its file."""
        super().close()
        if self._file is not None:
            self._file.close()


def require_proportion(unpacked: int, packed: int) -> None:
    """Raise SwellingError where so few bytes unpack to so many."""
    if unpacked > max(LARGEST_UNASKED, MOST_TIMES * packed):
        raise SwellingError(f"{packed:,} bytes would unpack to {unpacked:,}, out of all proportion")
