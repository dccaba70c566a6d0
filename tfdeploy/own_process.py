"""Whether this process is that of a command, and not of a program that uses tfdeploy as a library."""

from __future__ import annotations

_owned = False


def own() -> None:
    """Say that the process is that of a command."""
    global _owned  # noqa: PLW0603 it is about the process
    _owned = True


def is_owned() -> bool:
    """Whether the process is that of a command."""
    return _owned
