"""What a person is told while something takes long: a spinner on a terminal, elsewhere a line."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

AFTER = 1.0  # seconds
VARIABLE = "TFDEPLOY_PROGRESS"
NEVER = "never"


@contextmanager
def busy(doing: str, *, plain: bool = True) -> Iterator[None]:
    """Say on standard error what is being done, if it takes longer than `AFTER` seconds.

    On a terminal that is a spinner, which is gone when the block ends; elsewhere one line, unless `plain` is
    false. Where the environment variable TFDEPLOY_PROGRESS is `never`, nothing is said.
    """
    if os.environ.get(VARIABLE) == NEVER or not (plain or sys.stderr.isatty()):
        yield
        return
    over = threading.Event()
    with _own_stderr() as out:
        teller = threading.Thread(target=_tell, args=(doing, out, over), name="progress", daemon=True)
        teller.start()
        try:
            yield
        finally:
            over.set()
            teller.join()


def _tell(doing: str, out: IO[str], over: threading.Event) -> None:
    """Wait a moment, then show what is being done until it is `over`."""
    if over.wait(AFTER):
        return
    if not out.isatty():
        out.write(f"{doing} ...\n")
        out.flush()
        return
    from rich.console import Console
    from rich.text import Text

    with Console(file=out).status(Text(f"{doing} ...")):
        over.wait()


@contextmanager
def _own_stderr() -> Iterator[IO[str]]:
    """Return standard error under a descriptor of its own.

    While TensorFlow is imported, descriptor 2 leads elsewhere.
    """
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):  # it is no file of the system's: tests have such
        yield sys.stderr
        return
    with open(descriptor, "w", encoding=sys.stderr.encoding, errors="backslashreplace") as out:  # noqa: PTH123 a descriptor has no path
        yield out
