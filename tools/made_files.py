"""Writes the files of the project that are made of its own tables, or compares them with these tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_or_check(made: Mapping[Path, str], arguments: Sequence[str], program: str) -> int:
    """Write the files that differ; with `--check` among the arguments, only name them.

    Args:
        made: The text of each file.
        arguments: The arguments of the command line.
        program: The module that writes the files.

    Returns:
        The exit code: 1 if files that were to be checked differ, else 0.
    """
    different = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        for path in different:
            print(f"{path}: out of date; run `python -m {program}`", file=sys.stderr)
        return 1 if different else 0
    for path in different:
        path.write_text(made[path])
        print(f"{path}: written")
    return 0
