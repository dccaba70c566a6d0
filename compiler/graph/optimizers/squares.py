"""The optimizers that divide by the root of sums or means of squares of gradients.

Adagrad (Duchi et al., 2011), RMSprop (Tieleman and Hinton, 2012), Adadelta (Zeiler, 2012), and Ftrl, which
follows the regularised leader (McMahan et al., 2013).
"""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Change, Optimizer
from compiler.graph.variables.variables import SlotSpec


@frozen
class Adagrad(Optimizer):
    """a <- a + g^2; w <- w - rate g / sqrt(a + epsilon).

    The fused ops have their epsilon outside the root, or none, so the rule is composed here.
    """

    FUSED = False
    by_rows = True  # no other row has a gradient that changes it

    def slot_specs(self) -> tuple[SlotSpec, ...]:
        """Return the sum of squares, which does not start from zero."""
        return (SlotSpec("Adagrad", float(self.settings.initial_accumulator_value)),)

    def apply_dense(self, change: Change) -> tf.Operation:
        """Apply a dense gradient."""
        gradient, (slot,) = change.gradient, change.slots
        added = tf.raw_ops.AssignAddVariableOp(resource=slot, value=tf.square(gradient))
        with tf.control_dependencies([added]):
            sums = tf.raw_ops.ReadVariableOp(resource=slot, dtype=gradient.dtype)
        changed = self._changed(change, gradient, sums)
        return tf.raw_ops.AssignSubVariableOp(resource=change.handle, value=changed)

    def apply_sparse(self, change: Change) -> tf.Operation:
        """Apply the gradient of some rows; the others do not change."""
        rows, (slot,) = change.gradient.values, change.slots
        with tf.control_dependencies([change.scatter("Add", slot, tf.square(rows))]):
            sums = change.rows_of(slot)
        return change.scatter("Sub", change.handle, self._changed(change, rows, sums))

    def _changed(self, change: Change, gradient: tf.Tensor, sums: tf.Tensor) -> tf.Tensor:
        return change.rate * gradient / tf.sqrt(sums + change.number(self.settings.epsilon))


@frozen
class RMSprop(Optimizer):
    """s <- rho s + (1-rho) g^2; v <- momentum v + rate g / sqrt(s + epsilon); w <- w - v."""

    IN_16_BITS = False
    SLOTS: ClassVar[tuple[str, ...]] = ("RMSProp", "RMSProp_1")  # v is kept even if there is no momentum
    KERNEL = "ResourceApplyRMSProp"
    OPERANDS: ClassVar[tuple[str, ...]] = ("ms", "mom")
    NUMBERS = ("rho", "momentum", "epsilon")


@frozen
class CentredRMSprop(RMSprop):
    """RMSprop by which the square of the mean gradient a is subtracted from s in the root.

    a <- rho a + (1-rho) g.
    """

    SLOTS = ("RMSProp", "RMSProp_1", "RMSProp_2")
    KERNEL = "ResourceApplyCenteredRMSProp"
    OPERANDS = ("ms", "mom", "mg")


@frozen
class Adadelta(Optimizer):
    """Steps by the ratio of the root mean squares of past changes and of gradients.

    a <- rho a + (1-rho) g^2; d = g sqrt(u + epsilon) / sqrt(a + epsilon); u <- rho u + (1-rho) d^2;
    w <- w - rate d.
    """

    IN_16_BITS = False
    SLOTS = ("Adadelta", "Adadelta_1")
    KERNEL = "ResourceApplyAdadelta"
    OPERANDS = ("accum", "accum_update")
    NUMBERS = ("rho", "epsilon")


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
