"""Update modes: one in each file, and the table of all."""

from __future__ import annotations

from collections.abc import Callable

from compiler.graph.assembly import Assembly
from compiler.graph.update.asynchronous import build_async
from compiler.graph.update.local import build_local
from compiler.graph.update.step import Updates
from compiler.graph.update.sync import build_sync

UPDATE_MODES: dict[str, Callable[[Assembly], Updates]] = {
    "sync": build_sync,
    "async": build_async,
    "local": build_local,
}

__all__ = ["UPDATE_MODES", "Updates"]
