"""Stochastic gradient descent, plain and with momentum (Polyak, 1964; Sutskever et al., 2013)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from attrs import frozen

from compiler.graph.optimizers.base import Change, Gradient, Optimizer


@frozen
class GradientDescent(Optimizer):
    """w <- w - rate g."""

    by_rows = True  # no other row has a gradient that changes it

    def is_one_op(self, gradient: Gradient) -> bool:
        """Whether weights do not decay: rows are subtracted by one op as well, which holds the lock."""
        del gradient
        return not self._decaying

    def apply_dense(self, change: Change) -> tf.Operation:
        """Apply a dense gradient."""
        return tf.raw_ops.ResourceApplyGradientDescent(
            var=change.handle, alpha=change.rate, delta=change.gradient, use_locking=True
        )

    def apply_sparse(self, change: Change) -> tf.Operation:
        """Apply the gradient of some rows; the others do not change."""
        return change.scatter("Sub", change.handle, change.gradient.values * change.rate)


@frozen
class Momentum(Optimizer):
    """v <- momentum v - rate g; w <- w + v, or with Nesterov w <- w + momentum v - rate g."""

    SLOTS = ("Momentum",)
    KERNEL = "ResourceApplyKerasMomentum"
    OPERANDS = ("accum",)
    NUMBERS = ("momentum",)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the op `KERNEL`."""
        return {"use_nesterov": bool(self.settings.nesterov)}
