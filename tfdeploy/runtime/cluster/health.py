"""How the tasks of a cluster do: each measures itself and publishes that at a server, where others read it.

Traffic is that of the connections which the process has now or had when it last looked, as Linux counts it.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from attrs import define, evolve, field, frozen

from dsl.files.typed_json import Count, JsonRecord
from tfdeploy.runtime.show.reporting import duration
from tfdeploy.runtime.stop import alongside
from tfdeploy.runtime.watchdog import Activity

PUBLISH_EVERY = 2.0
WINDOW = 10.0  # seconds over which speeds are measured
IDLE = 0.1
"""The processor cores below which a process does not compute.

One that waits uses 0.02 to look whether it may go on, and two or three times as much on a busy machine.
"""

_TRAFFIC = struct.Struct("=QQ")
_AT = 120  # where tcp_info of Linux has the bytes that were acknowledged, and those that were received
_PAGE = os.sysconf("SC_PAGE_SIZE")


@frozen
class Health(JsonRecord):
    """How a process does."""

    at: float  # when this was measured, in seconds since 1970
    doing: str = ""  # what it is doing; empty for a server
    idle: float = 0.0  # the seconds since it last made progress
    late: bool = False  # whether that is longer than usual
    waiting: bool = False  # whether all that it does is to wait for others
    waits: tuple[str, ...] = ()  # what it waits for, in words, as far as it knows
    step: Count | None = None  # the global step to which it has come; None if it makes no steps
    updates: Count | None = None  # its own updates, if workers update independently of each other; else None
    examples: Count = 0
    speed: float = 0.0  # the examples of a second
    memory: Count = 0
    processor: float = 0.0  # the seconds of processor time that it has used
    cores: float = 0.0
    sent: Count = 0
    received: Count = 0
    sending: float = 0.0  # the bytes that it sends in a second
    receiving: float = 0.0  # the bytes that it receives in a second

    @property
    def is_stuck(self) -> bool:
        """Whether it makes no progress, uses no processor time, and does not know what it waits for."""
        return self.late and not self.waiting and not self.waits and self.cores < IDLE

    @property
    def words(self) -> str:
        """What it is doing in words, with what tells a process that computes from one that is stuck."""
        if not self.late:
            return self.doing
        doing = f"{self.doing} for {duration(self.idle)}"
        if self.waiting:
            return doing
        used = "no processor time is used" if self.cores < IDLE else f"{self.cores:.1f} cores compute"
        if self.waits:
            return f"{doing}: {self.waits[0]}; {used}"
        return f"{'stuck: ' if self.is_stuck else ''}{doing}, and {used}"


@define
class SelfMeasurement:
    """Measures this process."""

    activity: Activity | None = None  # what the process is doing; None for a server
    # What was measured before, and when by a clock that is never set.
    _before: deque[tuple[float, Health]] = field(factory=deque, init=False, repr=False)
    _connections: dict[int, tuple[int, int]] = field(factory=dict, init=False, repr=False)
    _closed: tuple[int, int] = field(default=(0, 0), init=False)
    _one: threading.Lock = field(factory=threading.Lock, init=False, repr=False)

    def now(self) -> Health:
        """Return how this process does, with its speeds since it was asked some seconds ago."""
        with self._one:
            found, now = self._measured(), time.monotonic()
            while len(self._before) > 1 and now - self._before[1][0] >= WINDOW:
                self._before.popleft()
            self._before.append((now, found))
            begun, first = self._before[0]
            seconds = max(now - begun, 1e-9)
            return evolve(
                found,
                speed=(found.examples - first.examples) / seconds,
                cores=(found.processor - first.processor) / seconds,
                sending=(found.sent - first.sent) / seconds,
                receiving=(found.received - first.received) / seconds,
            )

    def _measured(self) -> Health:
        sent, received = self._traffic()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        found = Health(
            time.time(),
            memory=pages * _PAGE,
            processor=time.process_time(),
            sent=sent,
            received=received,
        )
        activity = self.activity
        if activity is None:
            return found
        idle = activity.idle
        late = idle >= activity.patience
        return evolve(
            found,
            doing=activity.what,
            idle=idle,
            late=late,
            waiting=activity.waiting,
            waits=tuple(activity.waits_for()) if late else (),
            step=activity.step,
            updates=activity.updates,
            examples=activity.examples,
        )

    def _traffic(self) -> tuple[int, int]:
        """Return the bytes that were sent and received so far."""
        now = _connections()
        gone = [counted for inode, counted in self._connections.items() if inode not in now]
        self._closed = _sum([self._closed, *gone])
        self._connections = now
        return _sum([self._closed, *now.values()])


def _sum(counted: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(sent for sent, _ in counted), sum(received for _, received in counted)


def _connections() -> dict[int, tuple[int, int]]:
    """Return the bytes sent and received by each TCP connection to another process, by their inodes."""
    counted, ends = {}, {}
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it is closed by now, or no connection of TCP
            name = str(each.readlink())
            if not name.startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(each.name))) as copy:
                told = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _AT + _TRAFFIC.size)
                ends[name] = copy.getsockname(), copy.getpeername()
            counted[name] = _TRAFFIC.unpack_from(told.ljust(_AT + _TRAFFIC.size, b"\0"), _AT)
    here = {own for own, _ in ends.values()}
    return {
        int(name[len("socket:[") : -1]): counted[name] for name, (_, peer) in ends.items() if peer not in here
    }


def publishing(own: SelfMeasurement, publish: Callable[[str], object]) -> AbstractContextManager[None]:
    """Publish how this process does every few seconds, from a thread, during a block.

    Args:
        publish: Takes the record as JSON. What it raises ends nothing: a server may be gone for a while.
    """

    def work(over: threading.Event) -> None:
        while True:
            with suppress(Exception):
                publish(own.now().to_json())
            if over.wait(PUBLISH_EVERY - time.time() % PUBLISH_EVERY):  # as all do, so that steps compare
                return

    return alongside(work, "health")
