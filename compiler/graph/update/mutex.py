"""A mutex for the updates of one variable, for modes in which several clones make them at any time."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from attrs import frozen


@frozen
class Turn:
    """An update's turn at a variable: what is to have the variable to itself comes after `taken`."""

    taken: tuple[tf.Operation, ...] = ()
    _lock: Any = None

    def ended(self, last: tf.Operation) -> tf.Operation:
        """Return the op that ends the turn when `last` is done."""
        if self._lock is None:
            return last
        with tf.control_dependencies([last]):
            return tf.raw_ops.ConsumeMutexLock(mutex_lock=self._lock, name="leave")


def take_turn(key: str, *, contested: bool, after: Any = None) -> Turn:
    """Wait, on the current device, until no other update works under `key`; not at all if not `contested`.

    The turn begins when `after` (a tensor, or rows) is there, so that nobody waits for what is not ready.
    """
    if not contested:
        return Turn()
    mutex = tf.raw_ops.MutexV2(shared_name=f"tfdeploy/{key}", name="mutex")
    with tf.control_dependencies(tf.nest.flatten(after, expand_composites=True) if after is not None else []):
        lock = tf.raw_ops.MutexLock(mutex=mutex, name="enter")
    return Turn((lock.op,), lock)
