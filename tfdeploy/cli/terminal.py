"""Writes the output of commands. Text of unknown origin cannot control the terminal.

Names of files, and the content of maps, histories and answers of servers, may come from others.
"""

from __future__ import annotations

import sys

from dsl.formats.lines.cells import printable


def say(text: object, *, color: bool = False, err: bool = False, end: str = "\n") -> None:
    """Write text for people; with `color`, escape sequences for colours are kept.

    Args:
        text: The text, from which whatever could control the terminal is removed.
        color: Whether escape sequences for colours are kept.
        err: Whether to write to standard error in place of standard output.
        end: What is written behind the text.
    """
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{printable(str(text), color=color)}{end}")


def write_result(text: str) -> None:
    """Write a result unchanged, or, to a terminal, without characters that control it."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
