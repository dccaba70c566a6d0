"""A thread for every clone that updates by itself, and tickets that limit how many updates each makes."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from compiler.graph.compiled import TrainLoop

T = TypeVar("T")


class CloneThreads(Generic[T]):
    """A thread for each clone that makes updates, as many in all as `allow` permits.

    If an update raises an exception, no further update begins, and `result` raises the exception.

    Args:
        loops: The training ops of each clone.
        update: Makes one update of a clone; the second argument is whether it is the first one of the clone.
        staleness: The most updates by which a clone may be ahead of the slowest one; None for no bound.
    """

    def __init__(
        self,
        loops: Sequence[TrainLoop],
        update: Callable[[TrainLoop, bool], T],
        staleness: int | None = None,
    ) -> None:
        self.tickets = Tickets(len(loops), staleness)
        self._update = update
        self._results: queue.Queue[T | BaseException] = queue.Queue()
        self._taken = 0
        self._threads = [
            threading.Thread(target=self._repeat, args=(loop,), name=f"clone {loop.clone}", daemon=True)
            for loop in loops
        ]
        for thread in self._threads:
            thread.start()

    def allow(self, until: int) -> None:
        """Permit updates up to number `until`, counted from the first one, to begin."""
        self.tickets.allow(until)

    def result(self) -> T:
        """Wait until an update ends, and return its result."""
        found = self._results.get()
        self._taken += 1
        if isinstance(found, BaseException):
            self.close()
            raise found
        return found

    def settle(self) -> list[T]:
        """Permit no further updates, wait for those that have begun, and return the remaining results."""
        self.tickets.allow(0)
        found = []
        while self._taken < self.tickets.begun:
            found.append(self.result())
        return found

    def close(self) -> None:
        """End the threads, and wait until no update is running."""
        self.tickets.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _repeat(self, loop: TrainLoop) -> None:
        first = True
        while self.tickets.take(loop.clone):
            try:
                given = self._update(loop, first)
            except BaseException as fault:  # noqa: BLE001  # handed to the thread that waits
                self.tickets.close()
                self._results.put(fault)
                return
            first = False
            self._results.put(given)  # before others may begin, so that results come in the order of updates
            self.tickets.give_back(loop.clone)


@define
class Tickets:
    """Decides which clone may begin an update: each update needs a ticket, which the clone's thread takes.

    Attributes:
        clones: The number of clones.
        staleness: The most updates by which a clone may be ahead of another one. A clone that would be
            further ahead after its next update waits. The slowest clone never waits, so all updates end.
        begun: The number of tickets that were taken.
        made: The number of updates of each clone that have ended.
        largest_lead: The most updates by which a clone has been ahead of another one so far.
    """

    clones: int
    staleness: int | None = None
    begun: int = 0
    made: list[int] = field(init=False)
    largest_lead: int = 0
    _until: int = field(default=0, init=False)
    _closed: bool = field(default=False, init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.made = [0] * self.clones

    def allow(self, until: int) -> None:
        """Permit updates up to number `until` to begin, and no further ones."""
        with self._changed:
            self._until = until
            self._changed.notify_all()

    def close(self) -> None:
        """Give out no more tickets; threads that wait for one continue without."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self, clone: int) -> bool:
        """Wait until `clone` may begin an update; return False if there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._may_begin(clone))
            if self._closed:
                return False
            self.begun += 1
            return True

    def give_back(self, clone: int) -> None:
        """Note that an update of `clone` has ended."""
        with self._changed:
            self.made[clone] += 1
            self.largest_lead = max(self.largest_lead, max(self.made) - min(self.made))
            self._changed.notify_all()

    def _may_begin(self, clone: int) -> bool:
        if self.begun >= self._until:
            return False
        return self.staleness is None or self.made[clone] + 1 - min(self.made) <= self.staleness
