"""Whether this process is that of a command, and not of a program that uses tfdeploy as a library."""

from __future__ import annotations

import gc
import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tfdeploy import streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

SIGNALLED = 128  # a process that ends by a signal has, to a shell, the exit code 128 + its number

_owned = False


def own() -> None:
    """Say that the process is that of a command: Ctrl-C ends it at once, and its streams last."""
    global _owned  # noqa: PLW0603 it is about the process
    _owned = True
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)
    streams.guard()


def outlive_terminal(words: Callable[[OSError], str]) -> None:
    """Let a command go on when its terminal goes, or when nobody takes its output any more.

    Args:
        words: Returns what is written to standard error if output is lost, for the reason.
    """
    if _owned:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        streams.go_on_without_output(words)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt in the block, and end the process of a command at once around it."""
    _exchange(_leave, signal.default_int_handler)
    try:
        yield
    finally:
        _exchange(signal.default_int_handler, _leave)


@contextmanager
def not_interruptible() -> Iterator[None]:
    """Let Ctrl-C end the process of a command at once in a block of imports, which may swallow exceptions."""
    _exchange(signal.default_int_handler, _leave)
    try:
        yield
    finally:
        _exchange(_leave, signal.default_int_handler)


def _exchange(before: object, after: signal.Handlers | object) -> None:
    """Handle SIGINT by `after` if `before` handles it, and not the code of a run or nobody."""
    is_main = threading.current_thread() is threading.main_thread()
    if _owned and is_main and signal.getsignal(signal.SIGINT) is before:
        signal.signal(signal.SIGINT, after)  # type: ignore[arg-type]


def _leave(number: int, frame: FrameType | None) -> None:
    del frame
    os._exit(SIGNALLED + number)


def keep_everything() -> None:
    """Let Python no longer look for what can be freed, because the command ends soon.

    Nothing happens in a process that is not that of a command.
    """
    if _owned:
        gc.disable()


def is_owned() -> bool:
    """Whether the process is that of a command."""
    return _owned
