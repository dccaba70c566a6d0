"""Which clone may begin an update: exactly as many as are wanted, and none too far ahead of the slowest."""

from __future__ import annotations

import threading

from attrs import define, field


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
