"""Adam (Kingma and Ba, 2015)."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Optimizer, Scalars, constant, decay_and_scatter


@frozen
class Adam(Optimizer):
    """Steps of the size of the rate, by the ratio of two moments of the gradient.

    m <- b1 m + (1-b1) g; v <- b2 v + (1-b2) g^2;
    w <- w - rate sqrt(1-b2^t) / (1-b1^t) m / (sqrt(v) + epsilon).
    """

    slots = ("Adam", "Adam_1")

    def scalars(self, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Add the powers of both decays at this step, the first step being 1."""
        count = tf.cast(step + 1, tf.float32)
        return {
            **super().scalars(step),
            "beta1_power": tf.pow(tf.constant(self.settings.beta_1, tf.float32), count),
            "beta2_power": tf.pow(tf.constant(self.settings.beta_2, tf.float32), count),
        }

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        dtype = gradient.dtype
        return tf.raw_ops.ResourceApplyAdam(
            var=handle,
            m=slots[0],
            v=slots[1],
            beta1_power=tf.cast(scalars["beta1_power"], dtype),
            beta2_power=tf.cast(scalars["beta2_power"], dtype),
            lr=tf.cast(scalars["learning_rate"], dtype),
            beta1=constant(self.settings.beta_1, gradient),
            beta2=constant(self.settings.beta_2, gradient),
            epsilon=constant(self.settings.epsilon, gradient),
            grad=gradient,
            use_locking=True,
        )

    def apply_sparse(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.IndexedSlices, scalars: Scalars
    ) -> tf.Operation:
        """Apply the gradient of some rows as Keras does: the moments of all rows decay, and all rows move."""
        values, dtype = gradient.values, gradient.dtype
        beta_1, beta_2 = constant(self.settings.beta_1, gradient), constant(self.settings.beta_2, gradient)
        one = constant(1.0, gradient)
        correction = tf.sqrt(1 - scalars["beta2_power"]) / (1 - scalars["beta1_power"])
        rate = tf.cast(scalars["learning_rate"] * correction, dtype)
        first = decay_and_scatter(slots[0], beta_1, gradient.indices, (one - beta_1) * values)
        second = decay_and_scatter(slots[1], beta_2, gradient.indices, (one - beta_2) * tf.square(values))
        change = rate * first / (tf.sqrt(second) + constant(self.settings.epsilon, gradient))
        return tf.raw_ops.AssignSubVariableOp(resource=handle, value=change)
