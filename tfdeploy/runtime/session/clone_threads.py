"""A thread for every clone that updates by itself: each repeats its own update while it may."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from tfdeploy.runtime.session.tickets import Tickets

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
