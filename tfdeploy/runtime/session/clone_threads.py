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
    """Threads that make updates, as many as `allow` says; what each gives is taken one by one.

    `update` makes one update of a loop; it is also told whether it is the first of that clone. `staleness` is
    the bound on the lead of the fastest clone over the slowest. What an update raises is raised to who waits
    for results, and no further update begins.
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
        """Let updates up to number `until`, counted from the first, begin."""
        self.tickets.allow(until)

    def result(self) -> T:
        """Wait for the next update that ends, and return what it gave."""
        found = self._results.get()
        self._taken += 1
        if isinstance(found, BaseException):
            self.close()
            raise found
        return found

    def settle(self) -> list[T]:
        """Let no further update begin, wait for those at work, and return what is left of results."""
        self.tickets.allow(0)
        found = []
        while self._taken < self.tickets.begun:
            found.append(self.result())
        return found

    def close(self) -> None:
        """Make no more updates, and wait until none is under way."""
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
    """A ticket for every update that may be made; threads of clones take them.

    `staleness` bounds the lead: a clone that would, after its next update, have made more than so many
    more than another has to wait for that one. The slowest never waits, so all end. `begun` counts the
    tickets that were taken, `made` the updates of each clone that have ended.
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
        """Let updates up to number `until` begin, and no further ones."""
        with self._changed:
            self._until = until
            self._changed.notify_all()

    def close(self) -> None:
        """Give out no more tickets, and let go those that wait for one."""
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
        """Tell that an update of `clone` has been made."""
        with self._changed:
            self.made[clone] += 1
            self.largest_lead = max(self.largest_lead, max(self.made) - min(self.made))
            self._changed.notify_all()

    def _may_begin(self, clone: int) -> bool:
        if self.begun >= self._until:
            return False
        return self.staleness is None or self.made[clone] + 1 - min(self.made) <= self.staleness
