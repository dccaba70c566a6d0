"""A mutex for the updates of one variable, for modes in which several clones update it at any time."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from attrs import frozen


@frozen
class Turn:
    """The turn of an update at a variable.

    Attributes:
        taken: The ops that take the mutex. Ops that must exclude other updates run after these.
    """

    taken: tuple[tf.Operation, ...] = ()
    _lock: Any = None

    def ended(self, last: tf.Operation) -> tf.Operation:
        """Return the op that ends the turn when `last` is done."""
        if self._lock is None:
            return last
        with tf.control_dependencies([last]):
            return tf.raw_ops.ConsumeMutexLock(mutex_lock=self._lock, name="leave")


def take_turn(key: str, *, contested: bool, after: Any = None) -> Turn:
    """Wait, on the current device, until no other update holds the mutex.

    Args:
        key: The name of the mutex.
        contested: Whether other updates are possible. If not, there is no waiting.
        after: A tensor, or rows, that must exist before the turn begins, so that no update waits for one that
            is not ready.
    """
    if not contested:
        return Turn()
    mutex = tf.raw_ops.MutexV2(shared_name=f"tfdeploy/{key}", name="mutex")
    with tf.control_dependencies(tf.nest.flatten(after, expand_composites=True) if after is not None else []):
        lock = tf.raw_ops.MutexLock(mutex=mutex, name="enter")
    return Turn((lock.op,), lock)
