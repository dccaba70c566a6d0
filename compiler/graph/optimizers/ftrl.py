"""Follow the regularised leader, proximal (McMahan et al., 2013)."""

from __future__ import annotations

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Change, Optimizer
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

    def apply_dense(self, change: Change) -> tf.Operation:
        """Apply a dense gradient."""
        settings, rate, number = self.settings, change.rate, change.number
        l2 = number(settings.l2_regularization_strength)
        return tf.raw_ops.ResourceApplyFtrlV2(
            var=change.handle,
            accum=change.slots[0],
            linear=change.slots[1],
            grad=change.gradient,
            lr=rate,
            l1=number(settings.l1_regularization_strength),
            l2=l2 + number(settings.beta) / (2 * rate) if settings.beta else l2,
            l2_shrinkage=number(settings.l2_shrinkage_regularization_strength),
            lr_power=number(settings.learning_rate_power),
            use_locking=True,
        )
