"""Gradient descent with momentum (Polyak, 1964; Sutskever et al., 2013)."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Optimizer, Scalars, constant, rate_for


@frozen
class Momentum(Optimizer):
    """v <- momentum v - rate g; w <- w + v, or with Nesterov w <- w + momentum v - rate g."""

    SLOTS = ("Momentum",)

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=handle,
            accum=slots[0],
            lr=rate_for(gradient, scalars),
            grad=gradient,
            momentum=constant(self.settings.momentum, gradient),
            use_locking=True,
            use_nesterov=bool(self.settings.nesterov),
        )
