"""Where what commands say reaches a terminal: what others have written may not steer it.

Names of files, and what stands in maps, histories and answers of servers, may be a stranger's.
"""

from __future__ import annotations

import sys

from dsl.formats.lines.cells import printable


def say(text: object, *, color: bool = False, err: bool = False, end: str = "\n") -> None:
    """Write text for people; with `color`, sequences that choose a colour stay."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{printable(str(text), color=color)}{end}")


def write_result(text: str) -> None:
    """Write text that is a result, as it is; to a terminal, what can be shown of it."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)
