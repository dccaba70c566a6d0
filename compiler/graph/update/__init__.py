"""Update modes: one per file, one table of all."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.update.sync import build_sync

UPDATE_MODES: dict[str, Callable[[Assembly], tf.Operation]] = {"sync": build_sync}

__all__ = ["UPDATE_MODES"]
