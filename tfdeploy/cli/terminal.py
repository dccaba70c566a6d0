"""Writes the output of commands. Text of unknown origin cannot control the terminal.

Names of files, and the content of maps, histories and answers of servers, may come from others.
"""

from __future__ import annotations

import sys

from dsl.formats.cells import printable

INPUT = "<stdin>"
"""The name of standard input in messages."""


def say(
    text: object, *, color: bool = False, err: bool = False, end: str = "\n", flush: bool = False
) -> None:
    """Write text for people; with `color`, escape sequences for colours are kept.

    Args:
        text: The text, from which whatever could control the terminal is removed.
        color: Whether escape sequences for colours are kept.
        err: Whether to write to standard error in place of standard output.
        end: What is written behind the text.
        flush: Whether it is written at once.
    """
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
    """Return standard input, which may have no end, or its start.

    Args:
        most: The most bytes that are read.

    Raises:
        OSError: It cannot be read. The error has a name for it.
    """
    try:
        return sys.stdin.buffer.read(most)
    except OSError as error:
        raise OSError(error.errno, error.strerror, INPUT) from error
