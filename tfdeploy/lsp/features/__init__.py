"""What an editor can ask for, one subject in each file.

Each is imported when it is first used, because an editor waits for the start of the server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from tfdeploy.lsp.features import colors, completion, edits, hover, navigation

__all__ = ["colors", "completion", "edits", "hover", "navigation"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
