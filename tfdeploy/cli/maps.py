"""Placement maps that commands are given: compiled from a spec, or read from a file without TensorFlow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dsl.diagnostics import RunError
from dsl.errors.plan import bad_map

if TYPE_CHECKING:
    from compiler.kinds.records.kind_map import AnyMap

FILE = "placement.json"


def map_file(path: str) -> str | None:
    """Return the file of the placement map that `path` names, None if it names a spec.

    A run directory, or a folder of `compile`, means the map in it.
    """
    if os.path.isdir(path):  # noqa: PTH112 Path.is_dir raises OSError for a name that is too long
        return str(Path(path) / FILE)
    return path if path.endswith(".json") else None


def read_map(path: str) -> AnyMap:
    """Return the placement map in a file.

    Args:
        path: The file.

    Raises:
        RunError: If the file is no map, or one of a format that is not known.
        OSError: If it cannot be read.
    """
    from compiler.kinds.records import reading
    from dsl.files.typed_json import BadRecord

    try:
        return reading.read_map(path)
    except BadRecord as fault:
        raise RunError(bad_map(path=path, reason=str(fault))) from fault
