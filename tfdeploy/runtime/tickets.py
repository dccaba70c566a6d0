"""Which clone may begin an update: exactly as many as are wanted, and none too far ahead of the slowest."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Callable


@define
class Tickets:
    """A ticket for every update that is still to be made; threads of clones take them.

    `staleness` bounds the lead: a clone that would, after its next update, have made more than so many
    more than another has to wait for that one. The slowest never waits, so all end. `stop` is asked before
    each ticket.
    """

    clones: int
    staleness: int | None = None
    stop: Callable[[], bool] = field(default=lambda: False, repr=False)
    left: int = 0
    made: list[int] = field(init=False)
    largest_lead: int = 0
    _closed: bool = field(default=False, init=False)
    _changed: threading.Condition = field(factory=threading.Condition, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self.made = [0] * self.clones

    def open(self, count: int) -> None:
        """Give out `count` tickets from now on."""
        with self._changed:
            self.left, self._closed = count, False

    def take(self, clone: int) -> bool:
        """Wait until `clone` may begin an update; return False where there is no more to be made."""
        with self._changed:
            while not self._over() and self._ahead(clone):
                self._changed.wait()
            if self._over():
                self._close()
                return False
            self.left -= 1
            return True

    def give_back(self, clone: int) -> None:
        """Tell that an update of `clone` has been made."""
        with self._changed:
            self.made[clone] += 1
            self.largest_lead = max(self.largest_lead, max(self.made) - min(self.made))
            self._changed.notify_all()

    def close(self) -> None:
        """Give out no more tickets, and wake those that wait for one."""
        with self._changed:
            self._close()

    def _over(self) -> bool:
        return self._closed or self.left == 0 or self.stop()

    def _close(self) -> None:
        self._closed = True
        self._changed.notify_all()

    def _ahead(self, clone: int) -> bool:
        return self.staleness is not None and self.made[clone] + 1 - min(self.made) > self.staleness
