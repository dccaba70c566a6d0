"""Adagrad (Duchi et al., 2011)."""

from __future__ import annotations

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
