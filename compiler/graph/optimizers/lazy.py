"""Adam and Adamax that change only the rows of a table that a batch has used."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.adam import Adam
from compiler.graph.optimizers.base import (
    Gradient,
    Scalars,
    constant,
    move_rows,
    rate_for,
    rows_of,
    scatter_sub,
    set_rows,
)
from compiler.graph.optimizers.keras_rule import KerasRule
from compiler.graph.optimizers.update_trace import STEP


@frozen
class LazyAdam(Adam):
    """Adam for rows: moments and weights of rows without a gradient stay as they are.

    Adam moves every row in every step, because the first moment of a row lives on, and both moments decay.
    Here a row moves in the steps that have a gradient for it; the correction of the moments counts all steps.
    That is another optimizer, which touches as many rows as a batch has and not as many as the table has.
    For the rows of the batch, with t the number of the step:

    m <- m + (1-b1) (g - m); v <- v + (1-b2) (g^2 - v); w <- w - rate sqrt(1-b2^t) / (1-b1^t) m / (sqrt(v) +
    epsilon). Weight decay and `amsgrad` are those of Adam, for these rows. A dense gradient is applied as by
    Adam.
    """

    @property
    def by_rows(self) -> bool:
        """Return True: rows without a gradient stay as they are."""
        return True

    def apply(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: Gradient, scalars: Scalars
    ) -> tf.Operation:
        """Return the op that ends an update; weights without a gradient do not decay."""
        if not isinstance(gradient, tf.IndexedSlices):
            return super().apply(handle, slots, gradient, scalars)
        with tf.control_dependencies(self._decay_rows(handle, gradient, scalars)):
            return self.apply_sparse(handle, slots, gradient, scalars)

    def apply_sparse(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.IndexedSlices, scalars: Scalars
    ) -> tf.Operation:
        """Apply the gradient of some rows; the others do not change, nor do their slots."""
        rows, indices = gradient.values, gradient.indices
        first = move_rows(slots[0], gradient, rows, self.settings.beta_1)
        second = move_rows(slots[1], gradient, tf.square(rows), self.settings.beta_2)
        if self.settings.amsgrad:
            largest = tf.maximum(rows_of(slots[2], gradient), second)
            with tf.control_dependencies([set_rows(slots[2], gradient, largest)]):
                second = tf.identity(largest)
        powers = [tf.cast(scalars[f"beta{each}_power"], rows.dtype) for each in (1, 2)]
        rate = rate_for(gradient, scalars) * tf.sqrt(1 - powers[1]) / (1 - powers[0])
        change = rate * first / (tf.sqrt(second) + constant(self.settings.epsilon, rows))
        return scatter_sub(handle, indices, change)


@frozen
class LazyAdamax(KerasRule):
    """Adamax for rows: moments, norms and weights of rows without a gradient stay as they are.

    For the rows of the batch, with t the number of the step: m <- m + (1-b1) (g - m); u <- max(b2 u, |g|);
    w <- w - rate m / ((1-b1^t) (u + epsilon)). Only weights of these rows decay. A dense gradient is applied
    as by Adamax.
    """

    @property
    def by_rows(self) -> bool:
        """Return True: rows without a gradient stay as they are."""
        return True

    def apply(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: Gradient, scalars: Scalars
    ) -> tf.Operation:
        """Return the op that ends an update."""
        if not isinstance(gradient, tf.IndexedSlices):
            return super().apply(handle, slots, gradient, scalars)
        values, indices, settings = gradient.values, gradient.indices, self.settings
        before = self._decay_rows(handle, gradient, scalars)
        mean = move_rows(slots[0], gradient, values, settings.beta_1)
        norm = tf.maximum(rows_of(slots[1], gradient) * constant(settings.beta_2, values), tf.abs(values))
        kept = set_rows(slots[1], gradient, norm)
        power = tf.pow(constant(settings.beta_1, values), tf.cast(scalars[STEP] + 1, values.dtype))
        change = (
            rate_for(gradient, scalars) * mean / ((1 - power) * (norm + constant(settings.epsilon, values)))
        )
        with tf.control_dependencies([*before, kept]):
            return scatter_sub(handle, indices, change)
