"""SIGINT and SIGTERM: the first ends a run after its step and a checkpoint, the second at once."""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType

    from tfdeploy.runtime.result import Result

SIGNALS = (signal.SIGINT, signal.SIGTERM)
BASE = 128  # a process that ends by a signal has, to a shell, the exit code 128 + its number


class Interrupted(KeyboardInterrupt):
    """SIGINT has ended a run after a checkpoint; `result` is what it came to, if training had begun."""

    def __init__(self, result: Result | None = None) -> None:
        super().__init__()
        self.result = result


class Terminated(SystemExit):
    """SIGTERM has ended a run after a checkpoint; `result` is what it came to, if training had begun."""

    def __init__(self, result: Result | None = None) -> None:
        super().__init__(BASE + signal.SIGTERM)
        self.result = result


class StopSignals:
    """Watches for both signals while it is entered.

    A first signal raises Interrupted or Terminated, save inside `deferred`, where it is only kept in
    `received`. A second one ends the process, even where the main thread sits in TensorFlow: a thread of
    its own reads the numbers of signals as they arrive. Outside the main thread of Python signals are left
    alone.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._deferring = False
        self._before: dict[int, Any] = {}
        self._ends: tuple[socket.socket, socket.socket] | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            read, write = self._ends = socket.socketpair()
            write.setblocking(False)
            self._wakeup = signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
            self._before = {each: signal.signal(each, self._handle) for each in SIGNALS}
            threading.Thread(target=_end_at_second, args=(read,), daemon=True, name="signals").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ends is None:
            return
        signal.set_wakeup_fd(self._wakeup)
        for each, handler in self._before.items():
            signal.signal(each, handler)
        read, write = self._ends
        write.close()  # which ends the thread
        self._ends = None
        del read

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.received = signal.Signals(number)
        if not self._deferring:
            self.stop()

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Keep a signal that comes inside in `received` and go on; who asks for it must then call `stop`."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False

    def stop(self, result: Result | None = None) -> None:
        """Raise what the signal that came calls for, with the result so far; nothing where none came."""
        if self.received is signal.SIGINT:
            raise Interrupted(result)
        if self.received is signal.SIGTERM:
            raise Terminated(result)


def _end_at_second(end: socket.socket) -> None:
    """Read numbers of signals until the other end is closed; end the process at the second of ours."""
    seen = 0
    with end:
        while data := end.recv(16):
            for number in data:
                if number in SIGNALS:
                    seen += 1
                    if seen > 1:
                        os._exit(BASE + number)
