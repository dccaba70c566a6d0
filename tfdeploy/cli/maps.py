"""Placement maps that commands are given: compiled from a spec, or read from a file without TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from compiler.mapping.records import PlacementMap

FILE = "placement.json"


def map_file(path: str) -> str | None:
    """Return the file of the placement map that `path` names, None if it names a spec.

    A run directory, or a folder of `compile`, means the map in it.
    """
    if os.path.isdir(path):  # noqa: PTH112 Path.is_dir raises OSError for a name that is too long
        return str(Path(path) / FILE)
    return path if path.endswith(".json") else None


def read_map(path: str) -> PlacementMap:
    """Return the placement map in the file `path`; OSError and click.ClickException end a command with 2."""
    from compiler.mapping.records import LIMIT, PlacementMap
    from dsl.files.typed_json import BadRecord, read_record

    try:
        found = read_record(path, PlacementMap, LIMIT)
    except BadRecord as fault:
        raise click.ClickException(f"{path}: not a placement map: it {fault}") from fault
    major = found.format_version.partition(".")[0]
    if major != "1":
        raise click.ClickException(f"{path}: a placement map of format {found.format_version}; known is 1.x")
    return found
