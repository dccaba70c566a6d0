"""Whose a folder is: one in which a run may write and remove, or somebody else's.

A run marks its directory with a small file. Versions before that left none; their directories are known by
what nobody else writes: `result.json` of a run, the manifest of a checkpoint, or a placement map beside
`spec.tfdeploy`.
"""

from __future__ import annotations

import json
import os
import re
import time
from typing import TYPE_CHECKING, Any

from dsl.files.atomic import is_partial
from dsl.files.regular import read_text
from tfdeploy.runtime.records.lock import NAME as LOCK

if TYPE_CHECKING:
    from pathlib import Path

MARKER = ".tfdeploy-run"
MARKER_TEXT = "Runs of tfdeploy keep their files in this folder, and remove from it those of earlier runs.\n"
GRAPH = "graph.pb"
"""A file that `compile` writes, and a run does not."""

_UNOWNED = frozenset({LOCK, "lost+found"})
"""Names that do not count in an otherwise empty folder: a lock, and the folder of a new file system."""

_MANIFEST = re.compile(r"model\.ckpt-\d+\.json")
_OF_RESULT = {"status", "steps", "examples_per_second", "seconds", "directory"}
_OF_MANIFEST = {"step", "examples", "spec_sha256", "seed", "files"}
OF_PLACEMENT = {"format_version", "spec", "devices", "clones", "variables", "ops"}
OF_PROFILE = {"format_version", "machine", "op_start", "hand_over", "ops", "links"}


def is_marked(folder: Path) -> bool:
    """Whether a run has marked the folder as its own."""
    return (folder / MARKER).is_file()


def foreign_names(folder: Path) -> list[str]:
    """Return the sorted names of the files of others in a folder without a marker; raises OSError."""
    names = sorted(path.name for path in folder.iterdir())
    return [name for name in names if name not in _UNOWNED and not is_partial(name, MARKER)]


def was_written_by_a_run(folder: Path) -> bool:
    """Whether a run of an earlier version, which wrote no marker, has written the folder; raises OSError."""
    if is_json_object(folder / "result.json", _OF_RESULT):
        return True
    checkpoints = folder / "checkpoints"
    names = (
        [path for path in checkpoints.iterdir() if _MANIFEST.fullmatch(path.name)]
        if checkpoints.is_dir()
        else []
    )
    if any(is_json_object(path, _OF_MANIFEST) for path in names):
        return True
    both = (folder / "spec.tfdeploy").is_file() and is_json_object(folder / "placement.json", OF_PLACEMENT)
    return both and not (folder / GRAPH).exists()


def is_json_object(path: Path, keys: set[str]) -> bool:
    """Whether a file is a JSON object with these keys.

    Args:
        path: The file; if there is none, or it cannot be read, it is not such an object.
        keys: The keys that it has at least.
    """
    try:
        found: Any = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and keys <= found.keys()


SPLITS = ("train", "validation", "test")
_NAME = re.compile(r"events\.out\.tfevents\.\d+\.\d+")


def new_events_name() -> str:
    """Return a new name for a file of events, made of the time and the number of this process."""
    return f"events.out.tfevents.{time.time_ns():019d}.{os.getpid()}"


def is_events_file(name: str) -> bool:
    """Whether `name` has the form that `new_events_name` returns."""
    return _NAME.fullmatch(name) is not None
