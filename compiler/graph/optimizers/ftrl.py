"""Follow the regularised leader, proximal (McMahan et al., 2013)."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Optimizer, Scalars, constant, rate_for
from compiler.graph.variables.variables import SlotSpec


@frozen
class Ftrl(Optimizer):
    """Weights that are a function of sums of gradients.

    With p the power of the rate: n' = n + g^2; z <- z + g + 2 shrinkage w - (n'^-p - n^-p) / rate w; w <-
    (clip(z, -l1, l1) - z) / (n'^-p / rate + 2 l2 + beta / rate). The first step therefore forgets the initial
    value of every weight, also of those without a gradient.
    """

    def slot_specs(self) -> tuple[SlotSpec, ...]:
        """Return n, which does not start from zero, and z."""
        return (SlotSpec("Ftrl", float(self.settings.initial_accumulator_value)), SlotSpec("Ftrl_1"))

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        settings, rate = self.settings, rate_for(gradient, scalars)
        l2 = constant(settings.l2_regularization_strength, gradient)
        return tf.raw_ops.ResourceApplyFtrlV2(
            var=handle,
            accum=slots[0],
            linear=slots[1],
            grad=gradient,
            lr=rate,
            l1=constant(settings.l1_regularization_strength, gradient),
            l2=l2 + constant(settings.beta, gradient) / (2 * rate) if settings.beta else l2,
            l2_shrinkage=constant(settings.l2_shrinkage_regularization_strength, gradient),
            lr_power=constant(settings.learning_rate_power, gradient),
            use_locking=True,
        )
