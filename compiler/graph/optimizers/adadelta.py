"""Adadelta (Zeiler, 2012)."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Optimizer, Scalars, constant, rate_for


@frozen
class Adadelta(Optimizer):
    """Steps by the ratio of the root mean squares of past changes and of gradients.

    a <- rho a + (1-rho) g^2; d = g sqrt(u + epsilon) / sqrt(a + epsilon); u <- rho u + (1-rho) d^2;
    w <- w - rate d.
    """

    SLOTS = ("Adadelta", "Adadelta_1")

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        return tf.raw_ops.ResourceApplyAdadelta(
            var=handle,
            accum=slots[0],
            accum_update=slots[1],
            lr=rate_for(gradient, scalars),
            rho=constant(self.settings.rho, gradient),
            epsilon=constant(self.settings.epsilon, gradient),
            grad=gradient,
            use_locking=True,
        )
