"""Whether this process is that of a command, and not of a program that uses tfdeploy as a library."""

from __future__ import annotations

import gc

_owned = False


def own() -> None:
    """Say that the process is that of a command."""
    global _owned  # noqa: PLW0603 it is about the process
    _owned = True


def keep_everything() -> None:
    """Let Python no longer look for what can be freed, because the command ends soon.

    Nothing happens in a process that is not that of a command.
    """
    if _owned:
        gc.disable()


def is_owned() -> bool:
    """Whether the process is that of a command."""
    return _owned
