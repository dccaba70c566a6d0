"""Rewriting the user's own files."""

from __future__ import annotations

import os
import shutil
import tempfile


def replace_file(path: str, text: str) -> None:
    """Put `text` in place of what the file holds, all of it or nothing, and keep its permissions.

    A symbolic link stays one: the file that it leads to is replaced. Raises OSError with the file's name.
    """
    target = os.path.realpath(path)
    directory, name = os.path.split(target)
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{name}.", dir=directory)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            shutil.copymode(target, beside)
            os.replace(beside, target)  # noqa: PTH105 pathlib is not loaded for this
        except BaseException:
            os.unlink(beside)  # noqa: PTH108
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
