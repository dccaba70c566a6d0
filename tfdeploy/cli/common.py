"""What all commands share: the values of the common options, and how output is written.

Text of unknown origin cannot control the terminal: names of files, and the content of maps, histories and
answers of servers, may come from others.
"""

from __future__ import annotations

import os
import sys
from typing import Literal

from attrs import frozen

from dsl.formats.cells import printable


@frozen
class Common:
    """The values of the common options."""

    # The pairs of path and value of `--set`, in the order in which they were given.
    overrides: tuple[tuple[str, str], ...] = ()
    allow_python: bool = False  # whether the spec may load code with `python(...)`
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
    def settings(self) -> list[str]:
        """The overrides as arguments of a command line."""
        return [word for path, text in self.overrides for word in ("--set", f"{path}={text}")]

    @property
    def color_errors(self) -> bool:
        """Whether standard error is written in colour."""
        return colored(self.color, is_terminal=sys.stderr.isatty())

    @property
    def color_output(self) -> bool:
        """Whether standard output is written in colour."""
        return colored(self.color, is_terminal=sys.stdout.isatty())


def colored(wish: str, *, is_terminal: bool) -> bool:
    """Whether to use colour: `auto` depends on NO_COLOR, FORCE_COLOR and the terminal."""
    if wish != "auto":
        return wish == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return is_terminal and os.environ.get("TERM") != "dumb"


# Writes the output of commands. Text of unknown origin cannot control the terminal.
#
# Names of files, and the content of maps, histories and answers of servers, may come from others.

INPUT = "<stdin>"
"""The name of standard input in messages."""


def say(
    text: object, *, color: bool = False, err: bool = False, end: str = "\n", flush: bool = False
) -> None:
    """Write text for people; with `color`, escape sequences for colours are kept."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{printable(str(text), color=color)}{end}")
    if flush:
        stream.flush()


def write_result(text: str) -> None:
    """Write a result, such as a spec or JSON: in UTF-8, or, to a terminal, as text for people."""
    if sys.stdout.isatty():
        say(text, end="")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))


def read_input(most: int) -> bytes:
    """Return standard input, which may have no end, or its start; raises OSError with a name for it."""
    try:
        return sys.stdin.buffer.read(most)
    except OSError as error:
        raise OSError(error.errno, error.strerror, INPUT) from error
