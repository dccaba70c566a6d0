"""What the options that every command has say, and whether to write in colour."""

from __future__ import annotations

import os
import sys
from typing import Literal

from attrs import frozen


@frozen
class Common:
    """The values of the common options.

    Attributes:
        overrides: The pairs of path and value of `--set`, in the order in which they were given.
        allow_python: Whether the spec may load code with `python(...)`.
        color: When output is coloured.
        verbose: Whether TensorFlow's own messages are shown.
        debug: Whether the traceback of an error is shown.
        quiet: Whether only errors and the last summary are shown.
    """

    overrides: tuple[tuple[str, str], ...] = ()
    allow_python: bool = False
    color: Literal["auto", "always", "never"] = "auto"
    verbose: bool = False
    debug: bool = False
    quiet: bool = False

    @property
    def flags(self) -> list[str]:
        """The flags among them that are given, as arguments of a command line."""
        flags = ("allow_python", "verbose", "quiet", "debug")
        return [f"--{name.replace('_', '-')}" for name in flags if getattr(self, name)]

    @property
    def color_errors(self) -> bool:
        """Whether standard error is written in colour."""
        return colored(self.color, is_terminal=sys.stderr.isatty())

    @property
    def color_output(self) -> bool:
        """Whether standard output is written in colour."""
        return colored(self.color, is_terminal=sys.stdout.isatty())


def colored(wish: str, *, is_terminal: bool) -> bool:
    """Whether to use colour: `auto` depends on NO_COLOR, FORCE_COLOR and the terminal.

    Args:
        wish: The value of `--color`: `auto`, `always` or `never`.
        is_terminal: Whether the stream leads to a terminal.
    """
    if wish != "auto":
        return wish == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal and os.environ.get("TERM") != "dumb"
