"""The user's cache folder, which has what takes long to make and can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_file(name: str) -> Path | None:
    """Return a file in the user's cache folder, or None if the user has no folder that can be written to.

    Files from which code is loaded are kept here and in no shared folder: whoever can write to them could run
    code as the user.

    Args:
        name: The name of the file, which need not be there yet.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tfdeploy"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError if there is no home
        return None
    return folder / name if os.access(folder, os.W_OK) else None
