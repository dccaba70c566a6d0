"""Adam and Adamax that change only the rows of a table that a batch has used."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.adam import Adam
from compiler.graph.optimizers.base import Change, Gradient, Scalars
from compiler.graph.optimizers.keras_rule import KerasRule
from compiler.graph.optimizers.update_trace import STEP


@frozen
class LazyAdam(Adam):
    """Adam for rows: moments and weights of rows without a gradient stay as they are."""

    by_rows = True

    def decay(self, change: Change) -> tf.Operation:
        """Subtract `weight_decay * rate` before the update; weights without a gradient do not decay."""
        if not isinstance(change.gradient, tf.IndexedSlices):
            return super().decay(change)
        return change.decay_rows(self.settings.weight_decay)

    def apply_sparse(self, change: Change) -> tf.Operation:
        """Apply the gradient of some rows; the others do not change, nor do their slots."""
        rows, slots, settings = change.gradient.values, change.slots, self.settings
        first = change.move_rows(slots[0], rows, settings.beta_1)
        second = change.move_rows(slots[1], tf.square(rows), settings.beta_2)
        if settings.amsgrad:
            largest = tf.maximum(change.rows_of(slots[2]), second)
            with tf.control_dependencies([change.scatter("Update", slots[2], largest)]):
                second = tf.identity(largest)
        powers = [tf.cast(change.scalars[f"beta{each}_power"], rows.dtype) for each in (1, 2)]
        rate = change.rate * tf.sqrt(1 - powers[1]) / (1 - powers[0])
        changed = rate * first / (tf.sqrt(second) + change.number(settings.epsilon))
        return change.scatter("Sub", change.handle, changed)


@frozen
class LazyAdamax(KerasRule):
    """Adamax for rows: moments, norms and weights of rows without a gradient stay as they are."""

    by_rows = True

    def apply(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: Gradient, scalars: Scalars
    ) -> tf.Operation:
        """Return the op that ends an update."""
        if not isinstance(gradient, tf.IndexedSlices):
            return super().apply(handle, slots, gradient, scalars)
        change, values, settings = Change(handle, slots, gradient, scalars), gradient.values, self.settings
        before = [change.decay_rows(settings.weight_decay)] if self._decaying else []
        mean = change.move_rows(slots[0], values, settings.beta_1)
        norm = tf.maximum(change.rows_of(slots[1]) * change.number(settings.beta_2), tf.abs(values))
        kept = change.scatter("Update", slots[1], norm)
        power = tf.pow(change.number(settings.beta_1), tf.cast(scalars[STEP] + 1, values.dtype))
        changed = change.rate * mean / ((1 - power) * (norm + change.number(settings.epsilon)))
        with tf.control_dependencies([*before, kept]):
            return change.scatter("Sub", handle, changed)
