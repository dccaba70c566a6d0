"""Stochastic gradient descent, plain and with momentum."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Optimizer, Scalars, constant, decay_and_scatter


@frozen
class GradientDescent(Optimizer):
    """w <- w - rate * g."""

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        del slots
        rate = tf.cast(scalars["learning_rate"], gradient.dtype)
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=handle, alpha=rate, delta=gradient, use_locking=True
        )

    def apply_sparse(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.IndexedSlices, scalars: Scalars
    ) -> tf.Operation:
        """Apply the gradient of some rows."""
        del slots
        rate = tf.cast(scalars["learning_rate"], gradient.dtype)
        return tf.raw_ops.ResourceScatterSub(
            resource=handle, indices=gradient.indices, updates=gradient.values * rate
        )


@frozen
class Momentum(Optimizer):
    """v <- momentum * v - rate * g; w <- w + v.

    After Nesterov w <- w + momentum * v - rate * g (Sutskever et al., 2013).
    """

    slots = ("Momentum",)

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=handle,
            accum=slots[0],
            lr=tf.cast(scalars["learning_rate"], gradient.dtype),
            grad=gradient,
            momentum=constant(self.settings.momentum, gradient),
            use_locking=True,
            use_nesterov=self.settings.nesterov,
        )

    def apply_sparse(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.IndexedSlices, scalars: Scalars
    ) -> tf.Operation:
        """Apply the gradient of some rows as Keras does: every velocity decays and moves its weight."""
        dtype = gradient.dtype
        rate, momentum = tf.cast(scalars["learning_rate"], dtype), constant(self.settings.momentum, gradient)
        steps = gradient.values * rate
        velocity = decay_and_scatter(slots[0], momentum, gradient.indices, -steps)
        if not self.settings.nesterov:
            return tf.raw_ops.AssignAddVariableOp(resource=handle, value=velocity)
        moved = tf.raw_ops.AssignAddVariableOp(resource=handle, value=momentum * velocity)
        with tf.control_dependencies([moved]):
            return tf.raw_ops.ResourceScatterSub(resource=handle, indices=gradient.indices, updates=steps)
