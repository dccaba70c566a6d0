"""Rewriting the user's own files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path


def replace_file(path: str, text: str) -> None:
    """Put `text` in place of what the file holds, all of it or nothing, and keep its permissions.

    A symbolic link stays one: the file that it leads to is replaced. Raises OSError with the file's name.
    """
    target = Path(path).resolve()
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            shutil.copymode(target, beside)
            Path(beside).replace(target)
        except BaseException:
            Path(beside).unlink()
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
