"""Signals and standard streams of this process, if it is that of a command and not one that imports tfdeploy.

The reader of a pipe ends, a disk fills up, a terminal is closed, or a stream was closed before the command
began. What cannot be written to standard error is lost in silence, since there is nowhere to say so. What
cannot be written to standard output ends the command with an error, unless the command goes on without: a
training run does, because its files have everything.
"""

from __future__ import annotations

import gc
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn, TextIO


class LostOutputError(Exception):
    """Standard output cannot be written.

    Attributes:
        reason: The error of the operating system.
    """

    def __init__(self, reason: OSError) -> None:
        super().__init__(reason.strerror)
        self.reason = reason


class LastingStream(io.RawIOBase):
    """A descriptor to write to. Once it has refused something, it takes everything and keeps nothing.

    Args:
        descriptor: The descriptor, which stays open.
        on_loss: Is called with the first error, which it may raise as another one.

    Attributes:
        lost: The first error, if there was one.
    """

    def __init__(self, descriptor: int, on_loss: Callable[[OSError], None] | None = None) -> None:
        super().__init__()
        self._descriptor, self._on_loss = descriptor, on_loss
        self.lost: OSError | None = None

    def writable(self) -> bool:
        """Say that it is."""
        return True

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Whether the descriptor leads to a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        """Write bytes, or as many as the descriptor takes now; return how many that were."""
        while self.lost is None:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # another program that shares the terminal has made it so
                select.select([], [self._descriptor], [])
            except OSError as reason:
                self.lost = reason
                if self._on_loss is not None:
                    self._on_loss(reason)
        return len(data)


class _Standard:
    """What is done if standard output is lost; one for the process."""

    def __init__(self) -> None:
        self.output: LastingStream | None = None
        self.errors: TextIO | None = None
        self.words: Callable[[OSError], str] | None = None

    def lose(self, reason: OSError) -> None:
        if self.words is None:
            raise LostOutputError(reason)
        if self.errors is not None:  # and not `sys.stderr`, which may lead to standard output meanwhile
            self.errors.write(self.words(reason))


_STANDARD = _Standard()


def guard() -> None:
    """Give this process standard streams that last. Those that are closed get a descriptor that fails."""
    if sys.stdin is None:
        sys.stdin = open(_failing(0), encoding="utf-8", closefd=False)  # noqa: SIM115 a descriptor
    _STANDARD.output = LastingStream(_descriptor_of(sys.stdout, 1), _STANDARD.lose)
    sys.stdout = _text(sys.stdout, _STANDARD.output)
    sys.stderr = _STANDARD.errors = _text(sys.stderr, LastingStream(_descriptor_of(sys.stderr, 2)))


def require_output() -> None:
    """Write out what has been said so far; raises LostOutputError if standard output is or was lost."""
    sys.stdout.flush()
    if _STANDARD.output is not None and _STANDARD.output.lost is not None:
        raise LostOutputError(_STANDARD.output.lost)


def lasting(descriptor: int, like: TextIO) -> TextIO:
    """Return a text stream that writes to a descriptor, whatever becomes of that.

    Args:
        descriptor: The descriptor, which is not closed with the stream.
        like: The stream whose encoding it has.
    """
    return _text(like, LastingStream(descriptor))


def _text(like: Any, raw: LastingStream) -> TextIO:
    """Return a text stream with the encoding of another; letters that it lacks are written as escapes."""
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if like is None else like.encoding,
        errors="backslashreplace",
        newline="",
        line_buffering=like is None or like.line_buffering,
        write_through=like is not None and like.write_through,
    )


def _descriptor_of(stream: TextIO | None, number: int) -> int:
    return _failing(number) if stream is None else stream.fileno()


def _failing(number: int) -> int:
    """Return a descriptor in place of a closed one, so that no other file gets its number.

    Reading from it or writing to it fails as it does with a closed one.
    """
    opened = os.open(os.devnull, os.O_WRONLY if number == 0 else os.O_RDONLY)
    os.set_inheritable(opened, True)
    return opened


SIGNALLED = 128  # a process that ends by a signal has, to a shell, the exit code 128 + its number

_owned = False


def own() -> None:
    """Say that the process is that of a command: Ctrl-C ends it at once, and its streams last."""
    global _owned  # noqa: PLW0603 it is about the process
    _owned = True
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)
    guard()


def outlive_terminal(words: Callable[[OSError], str]) -> None:
    """Let a command go on when its terminal goes, or when nobody takes its output any more."""
    if _owned:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        _STANDARD.words = words


@contextmanager
def interruptible() -> Iterator[None]:
    """Let signals raise exceptions in the block, and end the process of a command around it.

    These are Ctrl-C, SIGTERM and the end of the terminal. So what is half written is removed, and processes
    that were started are ended, in the block.
    """
    with _handling((_leave, signal.default_int_handler), (signal.SIG_DFL, _exit)):
        yield


@contextmanager
def not_interruptible() -> Iterator[None]:
    """Let them end the process of a command at once in a block of imports, which may swallow exceptions."""
    with _handling((signal.default_int_handler, _leave), (_exit, _leave)):
        yield


@contextmanager
def interrupted_by_system() -> Iterator[None]:
    """Let the system end the process of a command, where TensorFlow may keep Python from doing it.

    The first process of a container is not ended by the system.
    """
    by_system = signal.SIG_DFL if os.getpid() != 1 else _leave
    with _handling((signal.default_int_handler, by_system), (_exit, by_system)):
        yield


@contextmanager
def _handling(interrupt: tuple[Any, Any], end: tuple[Any, Any]) -> Iterator[None]:
    """Exchange what handles signals in the block, if the first of two does, and not a run or nobody.

    Args:
        interrupt: The two for SIGINT.
        end: The two for the others.
    """
    is_main = threading.current_thread() is threading.main_thread()
    wanted = {signal.SIGINT: interrupt, signal.SIGTERM: end, signal.SIGHUP: end} if _owned and is_main else {}
    ours = {each: pair for each, pair in wanted.items() if signal.getsignal(each) is pair[0]}
    for number, (_, after) in ours.items():
        signal.signal(number, after)
    try:
        yield
    finally:
        for number, (before, after) in ours.items():
            if signal.getsignal(number) is after:
                signal.signal(number, before)


def _exit(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
    sys.exit(SIGNALLED + number)


def _leave(number: int, _: FrameType | None) -> None:
    end_process(SIGNALLED + number)


_CLEANING: list[Callable[[], None]] = []
"""What is called before a run ends that nobody waits for."""


@contextmanager
def cleanup(clean: Callable[[], None]) -> Iterator[None]:
    """Call `clean`, which must be quick, at the end of the block, or before if the run is given up."""
    _CLEANING.append(clean)
    try:
        yield
    finally:
        if clean in _CLEANING:
            _CLEANING.remove(clean)
            clean()


def clean_up() -> None:
    """Do now what `cleanup` would do later."""
    while _CLEANING:
        with suppress(Exception):
            _CLEANING.pop()()


def end_process(code: int) -> NoReturn:
    """End the process at once, whatever its threads are doing."""
    clean_up()
    os._exit(code)


def exit_with(code: int) -> NoReturn:
    """Exit with a code, as `sys.exit` does, but without what TensorFlow's libraries do at the very end.

    What they free then is freed with the process anyway. Threads of gRPC still run at that time, and now and
    then one of them finds a descriptor closed, and aborts a command that has done its work.
    """
    if "tensorflow" in sys.modules:
        import ctypes  # which takes time, and TensorFlow has it

        libc = ctypes.CDLL(None)  # which calls last what was registered first, and so nothing after this
        libc["__cxa_atexit"](libc["_exit"], ctypes.c_void_p(code), None)
    sys.exit(code)


def keep_everything() -> None:
    """Let Python no longer look for what can be freed, because the command ends soon.

    Nothing happens in a process that is not that of a command.
    """
    if _owned:
        gc.disable()


def is_owned() -> bool:
    """Whether the process is that of a command."""
    return _owned
