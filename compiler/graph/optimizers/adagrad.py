"""Adagrad (Duchi et al., 2011)."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Optimizer, Scalars, constant, rate_for, scatter_add, scatter_sub
from compiler.graph.variables.variables import SlotSpec


@frozen
class Adagrad(Optimizer):
    """a <- a + g^2; w <- w - rate g / sqrt(a + epsilon).

    The fused ops have their epsilon outside the root, or none, so the rule is composed here.
    """

    FUSED = False

    def slot_specs(self) -> tuple[SlotSpec, ...]:
        """Return the sum of squares, which does not start from zero."""
        return (SlotSpec("Adagrad", float(self.settings.initial_accumulator_value)),)

    @property
    def by_rows(self) -> bool:
        """Return True: no other row has a gradient that changes it."""
        return True

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        added = tf.raw_ops.AssignAddVariableOp(resource=slots[0], value=tf.square(gradient))
        with tf.control_dependencies([added]):
            sums = tf.raw_ops.ReadVariableOp(resource=slots[0], dtype=gradient.dtype)
        return tf.raw_ops.AssignSubVariableOp(resource=handle, value=self._change(gradient, sums, scalars))

    def apply_sparse(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.IndexedSlices, scalars: Scalars
    ) -> tf.Operation:
        """Apply the gradient of some rows; the others do not change."""
        rows, indices = gradient.values, gradient.indices
        added = scatter_add(slots[0], indices, tf.square(rows))
        with tf.control_dependencies([added]):
            sums = tf.raw_ops.ResourceGather(resource=slots[0], indices=indices, dtype=rows.dtype)
        return scatter_sub(handle, indices, self._change(rows, sums, scalars))

    def _change(self, gradient: tf.Tensor, sums: tf.Tensor, scalars: Scalars) -> tf.Tensor:
        return (
            rate_for(gradient, scalars) * gradient / tf.sqrt(sums + constant(self.settings.epsilon, gradient))
        )
