"""Update modes, and the table of all."""

from __future__ import annotations

from collections.abc import Callable

from compiler.graph.assembly import Assembly
from compiler.graph.update.local import build_local
from compiler.graph.update.shared import build_async, build_sync
from compiler.graph.update.step import Updates

UPDATE_MODES: dict[str, Callable[[Assembly], Updates]] = {
    "sync": build_sync,
    "async": build_async,
    "local": build_local,
}

__all__ = ["UPDATE_MODES", "Updates"]
