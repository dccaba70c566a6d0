"""Adamax that changes only the rows of a table that a batch has used."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

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
