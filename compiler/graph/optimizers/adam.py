"""Adam (Kingma and Ba, 2015), AMSGrad (Reddi et al., 2018), and with weight decay AdamW."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.optimizers.base import HALVES, Change, Gradient, Optimizer, Scalars
from compiler.graph.optimizers.keras_rule import KerasRule
from compiler.graph.optimizers.update_trace import STEP
from compiler.graph.variables.variables import SlotSpec


@frozen
class Adam(Optimizer):
    """Steps of about the size of the rate, by the ratio of two moments of the gradient.

    m <- b1 m + (1-b1) g; v <- b2 v + (1-b2) g^2; w <- w - rate sqrt(1-b2^t) / (1-b1^t) m / (sqrt(v) +
    epsilon). With `amsgrad` the largest v so far is used instead of v in the last formula.
    """

    SLOTS = ("Adam", "Adam_1")
    IN_16_BITS = False

    def slot_specs(self) -> tuple[SlotSpec, ...]:
        """Return both moments, and the largest second moment if `amsgrad` is set."""
        return super().slot_specs() + ((SlotSpec("Adam_2"),) if self.settings.amsgrad else ())

    def own_scalars(self, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the powers of both decays at this step, the first step being 1."""
        count = tf.cast(step + 1, tf.float32)
        return {
            "beta1_power": tf.pow(tf.constant(self.settings.beta_1, tf.float32), count),
            "beta2_power": tf.pow(tf.constant(self.settings.beta_2, tf.float32), count),
        }

    def apply_dense(self, change: Change) -> tf.Operation:
        """Apply a dense gradient."""
        gradient, slots, scalars, number = change.gradient, change.slots, change.scalars, change.number
        beta_1, beta_2 = self.settings.beta_1, self.settings.beta_2
        scale = math.sqrt(_complement_error(beta_2, gradient.dtype))
        correction = scale * _complement_error(beta_1, gradient.dtype)
        inputs = {
            "var": change.handle,
            "m": slots[0],
            "v": slots[1],
            "beta1_power": tf.cast(scalars["beta1_power"], gradient.dtype),
            "beta2_power": tf.cast(scalars["beta2_power"], gradient.dtype),
            "lr": change.rate * number(1 / correction),
            "beta1": number(beta_1),
            "beta2": number(beta_2),
            "epsilon": number(self.settings.epsilon),
            "grad": gradient * number(scale),
        }
        if self.settings.amsgrad:
            return tf.raw_ops.ResourceApplyAdamWithAmsgrad(**inputs, vhat=slots[2], use_locking=True)
        return tf.raw_ops.ResourceApplyAdam(**inputs, use_locking=True)


def _complement_error(decay: float, dtype: Any) -> float:
    """Return 1 - decay as Keras computes it over 1 - decay as the fused op computes it in its type.

    For 0.999 in float32 that is 1 + 1.3e-5. A gradient scaled by its root gives Keras's second moments, apart
    from their decay, which shows after thousands of steps in the fifth decimal. The rate is corrected for the
    change of the first moments.
    """
    rounded = np.array(decay, tf.as_dtype(dtype).as_numpy_dtype)
    kept = float(rounded.dtype.type(1) - rounded)
    return (1 - decay) / kept if kept > 0 else 1.0


# --- lazy updates, of the rows with a gradient alone ------------------------------------------------------


@frozen
class LazyAdam(Adam):
    """Adam for rows: moments and weights of rows without a gradient stay as they are."""

    by_rows = True

    def decay(self, change: Change) -> tf.Operation:
        """Subtract `weight_decay * rate` before the update; weights without a gradient do not decay."""
        if not isinstance(change.gradient, tf.IndexedSlices):
            return super().decay(change)
        return change.decay_rows(self.settings.weight_decay)

    def is_one_op(self, gradient: Gradient) -> bool:
        """Whether one op does the whole update, which takes several in 16 bits."""
        return super().is_one_op(gradient) and gradient.dtype not in HALVES

    def apply_dense(self, change: Change) -> tf.Operation:
        """Apply a dense gradient, in 16 bits as one of all rows, because the kernel is of no use for it."""
        gradient = change.gradient
        if gradient.dtype not in HALVES or not gradient.shape.rank:
            return super().apply_dense(change)
        rows = tf.range(gradient.shape[0], dtype=tf.int64)
        return self.apply_sparse(evolve(change, gradient=tf.IndexedSlices(gradient, rows)))

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
