"""SIGINT and SIGTERM: the first signal ends a run after its step and a checkpoint, the second at once.

A signal does not raise an exception at the point where it arrives, because TensorFlow might swallow that. It
is stored, and the run checks for it at the points where it can stop.
"""

from __future__ import annotations

import contextvars
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Self, TypeVar

from dsl.diagnostics import RunError
from tfdeploy.own_process import clean_up, cleanup, end_process
from tfdeploy.runtime.records.lock import locked

if TYPE_CHECKING:
    from types import FrameType

    from tfdeploy.runtime.records.result import Result

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK_EVERY = 0.25
PREFIX, MARK = "tfdeploy-", ".temporary"
"""How the names of folders for temporary files begin, and the file that tells them from others."""
T = TypeVar("T")
BASE = 128  # a process that ends by a signal has, to a shell, the exit code 128 + its number


class Interrupted(KeyboardInterrupt):
    """SIGINT has ended a run after a checkpoint; `result` is its result, if training had begun."""

    def __init__(self, result: Result | None = None) -> None:
        super().__init__()
        self.result = result


class Terminated(SystemExit):
    """SIGTERM has ended a run after a checkpoint; `result` is its result, if training had begun."""

    def __init__(self, result: Result | None = None) -> None:
        super().__init__(BASE + signal.SIGTERM)
        self.result = result


class GivenUp(BaseException):  # it is no fault
    """The run has been left to itself meanwhile, and must not go on."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that only this user can enter, and remove it as `cleanup` does.

    Those of processes that were killed, whose locks are free, are removed before.
    """
    for mark in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{MARK}"):
        with suppress(OSError, RunError), locked(mark.parent):
            shutil.rmtree(mark.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    with cleanup(lambda: shutil.rmtree(folder, ignore_errors=True)), locked(folder):
        (folder / MARK).touch()
        yield folder


def in_background(work: Callable[[], T]) -> Future[T]:
    """Do some work in a thread, which may be left to itself and does not keep the process from ending."""
    outcome: Future[T] = Future()
    arguments = (_settle, outcome, work)
    threading.Thread(target=contextvars.copy_context().run, args=arguments, daemon=True).start()
    return outcome


def _settle(outcome: Future[T], work: Callable[[], T]) -> None:
    """Do some work for a thread that waits for its outcome, unless that was released meanwhile."""
    with suppress(InvalidStateError):
        try:
            outcome.set_result(work())
        except BaseException as fault:  # noqa: BLE001  # raised again by the thread that waits
            outcome.set_exception(fault)


@contextmanager
def alongside(work: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """Do some work in a thread during a block, and wait at the end of the block until it has ended."""
    over = threading.Event()
    thread = threading.Thread(target=work, args=(over,), daemon=True, name=name)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class ReleasableThread:
    """Runs one thing after the other for another thread, which can be released while it waits for one.

    What the other thread is released from may never end, and is left to itself. At the end of its block the
    thread ends as soon as it has nothing to do.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._future = Future[Any]()

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._given.put(None)

    def _begin(self) -> None:
        self._given: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=_serve, args=(self._given,), daemon=True, name=self._name).start()

    def run(self, work: Callable[[], T]) -> T:
        """Let the thread do some work, and return what it returns, or raise what it raises."""
        future = self._future = Future[T]()
        self._given.put((future, work))
        return future.result()

    def release(self, fault: BaseException) -> None:
        """Let `run` raise an exception now, if it waits. What is run next is run by another thread."""
        before = self._given
        self._begin()
        before.put(None)
        with suppress(InvalidStateError):  # it has just ended
            self._future.set_exception(fault)


def _serve(given: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]) -> None:
    while (each := given.get()) is not None:
        _settle(*each)


class StopSignals:
    """Handles SIGINT and SIGTERM while it is entered. Outside Python's main thread, signals are left alone.

    A second signal does what it would have done before, unless the process exists for this run alone. Then it
    ends the process, even while the main thread is inside TensorFlow, because a thread reads the numbers of
    the signals as they arrive.

    Args:
        own_process: Whether the process exists for this run alone.

    Attributes:
        received: The first signal, as soon as the main thread has handled it.
        arrived: The first signal and when it arrived (`time.monotonic()`), known whenever `received` is. With
            `own_process` it is known even while the main thread is inside TensorFlow.
        given_up: Whether nobody waits for the run any more.
    """

    def __init__(self, *, own_process: bool = False) -> None:
        self.received: signal.Signals | None = None
        self.arrived: tuple[signal.Signals, float] | None = None
        self.given_up = False
        self._own_process = own_process
        self._before: dict[int, Any] = {}
        self._ends: tuple[socket.socket, socket.socket] | None = None
        self._wakeup = -1

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._before = {each: signal.signal(each, self._handle) for each in SIGNALS}
        if self._own_process:
            read, write = self._ends = socket.socketpair()
            write.setblocking(False)
            self._wakeup = signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
            threading.Thread(target=self._end_at_second, args=(read,), daemon=True, name="signals").start()
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        if self._ends is not None:
            signal.set_wakeup_fd(self._wakeup)
            self._ends[1].close()  # which ends the thread
            self._ends = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self._note(number)  # the thread that reads signals may not have come to it yet
            self.received = signal.Signals(number)
        elif self._own_process:
            end_process(BASE + number)  # as the thread does, whichever of the two comes first
        elif callable(before := self._before.get(number)):
            before(number, frame)
        elif before is signal.SIG_DFL:
            signal.signal(number, before)
            signal.raise_signal(number)

    def _end_at_second(self, end: socket.socket) -> None:
        """Read numbers of signals until the other end is closed; end the process at the second signal."""
        with end:
            first = True
            while data := end.recv(16):
                for number in filter(SIGNALS.__contains__, data):
                    if not first:
                        end_process(BASE + number)
                    self._note(number)
                    first = False

    def _note(self, number: int) -> None:
        if self.arrived is None:
            self.arrived = signal.Signals(number), time.monotonic()

    def end_run(self, number: signal.Signals) -> None:
        """End a run that cannot be ended in another way: the process, or the wait for its thread."""
        if self._own_process:
            end_process(BASE + number)
        self.given_up = True

    def run(self, work: Callable[[], Result]) -> Result:
        """Do the work of a run, and give it up if it makes no progress after a signal.

        Inside TensorFlow, a thread can neither handle a signal nor be ended. If the process does not exist
        for this run alone, a thread of its own does the work, which is left to itself in the worst case.

        Args:
            work: Returns the outcome of the run. It raises `GivenUp` when it finds that nobody waits.

        Raises:
            Interrupted: If SIGINT has ended the run.
            Terminated: If SIGTERM has ended the run.
        """
        if self._own_process or not self._before:
            return work()
        outcome = in_background(work)
        try:
            while not outcome.done() and not self.given_up:
                wait([outcome], LOOK_EVERY)  # handlers of signals run meanwhile
        finally:
            if not outcome.done():
                self.given_up = True
                clean_up()
        if self.given_up:
            self.check()
        return outcome.result()

    def check(self, result: Result | None = None) -> None:
        """Raise the exception of the signal that has been received, if there is one.

        Raises:
            Interrupted: If SIGINT was received.
            Terminated: If SIGTERM was received.
        """
        if self.received is signal.SIGINT:
            raise Interrupted(result)
        if self.received is signal.SIGTERM:
            raise Terminated(result)
