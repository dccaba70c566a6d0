"""A mutex for the updates of one variable, for modes in which several clones update it at any time."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from compiler.step.record import Tensor
from compiler.step.writer import Spot


@frozen
class Turn:
    """The turn of an update at a variable.

    Attributes:
        taken: The names of the ops that take the mutex. Ops that must exclude other updates run after these.
    """

    taken: tuple[str, ...] = ()
    _at: Spot | None = None
    _lock: Tensor | None = None

    def ended(self, *last: str) -> str:
        """Return the name of the op that ends the turn when all of `last` are done, or the only one."""
        if self._at is None or self._lock is None:
            return last[0]
        return self._at.waiting(last).run("ConsumeMutexLock", "leave", self._lock)


def take_turn(at: Spot, key: str, *, contested: bool, after: Sequence[Tensor] = ()) -> Turn:
    """Wait until no other update holds the mutex.

    Args:
        at: Where the ops are written.
        key: The name of the mutex.
        contested: Whether other updates are possible. If not, there is no waiting.
        after: Tensors that must exist before the turn begins, so that no update waits for one that is not
            ready.
    """
    if not contested:
        return Turn()
    (mutex,) = at.op("MutexV2", "mutex", shared_name=f"tfdeploy/{key}")
    (lock,) = at.waiting([each.op for each in after]).op("MutexLock", "enter", mutex)
    return Turn((lock.op,), at, lock)
