"""Stochastic gradient descent, plain and with momentum (Polyak, 1964; Sutskever et al., 2013)."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Gradient, Optimizer, Scalars, constant, rate_for, scatter_sub


@frozen
class GradientDescent(Optimizer):
    """w <- w - rate g."""

    @property
    def by_rows(self) -> bool:
        """Return True: no other row has a gradient that changes it."""
        return True

    def is_one_op(self, gradient: Gradient) -> bool:
        """Whether weights do not decay: rows are subtracted by one op as well, which holds the lock."""
        del gradient
        return not (self.decays and self.settings.weight_decay)

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        del slots
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=handle, alpha=rate_for(gradient, scalars), delta=gradient, use_locking=True
        )

    def apply_sparse(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.IndexedSlices, scalars: Scalars
    ) -> tf.Operation:
        """Apply the gradient of some rows; the others do not change."""
        del slots
        return scatter_sub(handle, gradient.indices, gradient.values * rate_for(gradient, scalars))


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
