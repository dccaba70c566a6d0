"""The names of TensorBoard's files, by which those of a run are known from all others."""

from __future__ import annotations

import os
import re
import time

SPLITS = ("train", "validation", "test")
_NAME = re.compile(r"events\.out\.tfevents\.\d+\.\d+")


def new_events_name() -> str:
    """Return a name for a file of events: of this moment and this process."""
    return f"events.out.tfevents.{time.time_ns():019d}.{os.getpid()}"


def is_events_file(name: str) -> bool:
    """Whether `name` is one that `new_events_name` gives."""
    return _NAME.fullmatch(name) is not None
