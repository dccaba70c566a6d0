"""Open untrusted zip archives: regular files, with members that are not much larger when unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any, BinaryIO

from dsl.files.regular import open_regular

LARGEST_UNASKED = 1 << 26
"""The bytes that a member may always have when it is unpacked, however few are in the file."""

MOST_TIMES = 200
"""The most that a larger member may be, as a multiple of its size in the file: deflate reaches 1,000."""


class SwellingError(zipfile.BadZipFile):
    """A member is so much larger unpacked than packed that the archive must be malicious."""


class ZipArchive(zipfile.ZipFile):
    """A zip archive that is open for reading. Closing it closes its file.

    Raises:
        OSError: The path is not a regular file.
        zipfile.BadZipFile: The file is not an archive.
    """

    _file: BinaryIO | None = None  # closes the file also if it could not be opened as an archive

    def __init__(self, path: Path) -> None:
        self._file = open_regular(path)
        try:
            super().__init__(self._file)
        except BaseException:
            self._file.close()
            raise

    def open(self, name: str | zipfile.ZipInfo, *more: Any, **options: Any) -> IO[bytes]:
        """Open a member.

        Raises:
            KeyError: There is no such member.
            SwellingError: The member is far larger unpacked than packed.
        """
        info = name if isinstance(name, zipfile.ZipInfo) else self.getinfo(name)
        require_proportion(info.file_size, info.compress_size)
        return super().open(info, *more, **options)

    def close(self) -> None:
        """Close the archive and its file."""
        super().close()
        if self._file is not None:
            self._file.close()


def require_proportion(unpacked: int, packed: int) -> None:
    """Raise SwellingError if so few bytes unpack to so many.

    Raises:
        SwellingError: The member is larger than what any member may be, and than 200 times its packed bytes.
    """
    if unpacked > max(LARGEST_UNASKED, MOST_TIMES * packed):
        raise SwellingError(f"{packed:,} bytes would unpack to {unpacked:,}, which is not plausible")
