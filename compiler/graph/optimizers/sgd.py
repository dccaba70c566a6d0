"""Stochastic gradient descent, without momentum."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Optimizer, Scalars, rate_for, scatter_sub


@frozen
class GradientDescent(Optimizer):
    """w <- w - rate g."""

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
