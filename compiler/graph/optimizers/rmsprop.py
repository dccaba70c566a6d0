"""RMSprop (Tieleman and Hinton, 2012), plain, centred and with momentum."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Optimizer, Scalars, constant, rate_for
from compiler.graph.variables.variables import SlotSpec


@frozen
class RMSprop(Optimizer):
    """s <- rho s + (1-rho) g^2; v <- momentum v + rate g / sqrt(s + epsilon); w <- w - v.

    If it is centred, the square of the mean gradient a is subtracted from s in the root: a <- rho a + (1-rho)
    g.
    """

    SLOTS = ("RMSProp", "RMSProp_1")  # the fused op keeps v even if there is no momentum

    def slot_specs(self) -> tuple[SlotSpec, ...]:
        """Return the mean square and the velocity, and the mean gradient if `centered` is set."""
        return super().slot_specs() + ((SlotSpec("RMSProp_2"),) if self.settings.centered else ())

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        inputs = {
            "var": handle,
            "ms": slots[0],
            "mom": slots[1],
            "lr": rate_for(gradient, scalars),
            "rho": constant(self.settings.rho, gradient),
            "momentum": constant(self.settings.momentum, gradient),
            "epsilon": constant(self.settings.epsilon, gradient),
            "grad": gradient,
        }
        if self.settings.centered:
            return tf.raw_ops.ResourceApplyCenteredRMSProp(**inputs, mg=slots[2], use_locking=True)
        return tf.raw_ops.ResourceApplyRMSProp(**inputs, use_locking=True)
