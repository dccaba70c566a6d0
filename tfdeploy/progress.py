"""A message while something takes long: a spinner on a terminal, a line of text elsewhere."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tfdeploy.own_process import lasting

AFTER = 1.0  # seconds
VARIABLE = "TFDEPLOY_PROGRESS"
NEVER = "never"


@contextmanager
def without_progress() -> Iterator[None]:
    """Let `busy` write nothing in the block, nor in processes that are started in it."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = NEVER
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def announce(doing: str) -> None:
    """Write to standard error what is being done now, while which no thread may be able to say it."""
    if os.environ.get(VARIABLE) != NEVER:
        sys.stderr.write(f"{doing} ...\n")
        sys.stderr.flush()


@contextmanager
def busy(doing: str, *, plain: bool = True) -> Iterator[None]:
    """Write to standard error what is being done, if the block takes longer than `AFTER` seconds.

    On a terminal a spinner is shown, which disappears when the block ends. If the environment variable
    TFDEPLOY_PROGRESS is `never`, nothing is written.

    Args:
        doing: What the block does, such as `starting TensorFlow`.
        plain: Whether a line is written if standard error is no terminal.
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
    try:
        with lasting(descriptor, sys.stderr) as out:
            yield out
    finally:
        os.close(descriptor)
