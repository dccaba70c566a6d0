"""Paths in specs, which may be globs: the files that they name, their absolute form, and what is no path.

A file of exactly this name comes first, so that `a[1].csv` names itself if it is there. The folder of the
spec is never part of a glob, whatever it is called.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

SIGNS = "*?["
_ADDRESS = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")


def scheme_of(text: str) -> str | None:
    """Return the scheme of an address such as `gs://bucket/x`, which is no path; None for a path."""
    found = _ADDRESS.match(text)
    return None if found is None else found[1]


def is_glob(text: str) -> bool:
    """Whether a text has signs of a glob."""
    return any(sign in text for sign in SIGNS)


def is_there(path: Path) -> bool:
    """Whether there is a file or folder of this name; not if its name is longer than names can be."""
    return os.path.exists(path)  # noqa: PTH110 Path.exists raises OSError for such a name


def matches(base: Path, written: str) -> list[Path]:
    """Return what a path or glob names, without an order."""
    if is_there(base / written):
        return [base / written]
    if not is_glob(written):
        return []
    import glob  # imported here because most specs do not need it

    return list(map(Path, glob.glob(str(base / written) if _alone(written) else _within(base, written))))  # noqa: PTH207 absolute ones, too


def absolute(base: Path, written: str) -> str:
    """Return a path or glob that names the same from every folder."""
    if _alone(written) or not is_glob(written) or is_there(base / written):
        return str(base / written)
    return _within(base, written)


def _alone(written: str) -> bool:
    return Path(written).is_absolute()


def _within(base: Path, written: str) -> str:
    import glob

    return str(Path(glob.escape(str(base))) / written)


# --- the user's cache folder, which has what takes long to make and can be made again ---------------------


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
