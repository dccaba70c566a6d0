"""Folders that a command is given stand for the specs below them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dsl.diagnostics import SpecError
from dsl.errors import files as errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ENDING = ".tfdeploy"
SKIPPED = ("build",)
"""Folders whose specs are copies; hidden ones, `.venv` among them, are not looked into either."""


def specs_of(paths: Iterable[str]) -> list[str]:
    """Return `paths` with the specs below it, in the order of their names, in place of each folder.

    A file that is named as well as found is returned once. Raises SpecError for a folder without specs.
    """
    found: dict[str, None] = {}
    for path in paths:
        if not os.path.isdir(path):  # noqa: PTH112 Path.is_dir raises OSError for a name that is too long
            found[path] = None
            continue
        below = sorted(_below(path))
        if not below:
            raise SpecError([errors.no_specs(path, ENDING)])
        found.update(dict.fromkeys(below))
    return list(found)


def _below(folder: str) -> Iterator[str]:
    """Yield the specs below `folder`; links to folders are not followed, so that nothing goes in circles."""
    for directory, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each not in SKIPPED]
        for name in files:
            path = Path(directory, name)
            if name.endswith(ENDING) and not name.startswith(".") and path.is_file():
                yield str(path)
