"""Dynamic loss scaling for float16, with the constants of Keras's LossScaleOptimizer.

The loss is multiplied by a scale before it is differentiated, so that small gradients do not vanish in 16
bits, and the gradients are divided by the scale afterwards (`gradients/unscale.py`). A step whose gradients
are not finite is skipped: only the scale changes, which is halved, and the global step does not count it.
After `GROWTH_STEPS` consecutive good steps the scale is doubled (Micikevicius et al., Mixed Precision
Training, 2018).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.fragments import write_traced
from compiler.graph.ledger import Ledger
from compiler.graph.variables.variables import create_variable
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.writer import Spot

INITIAL_SCALE = 2.0**15
GROWTH_STEPS = 2000
NAME = "loss_scale"


@frozen
class LossScale:
    """The scale, and the number of consecutive good steps since it last changed. Checkpoints hold both."""

    scale: Any
    good_steps: Any
    # The scale as it was read for this step. The losses of the towers are multiplied by it, and the gradients
    # are divided by it.
    value: Tensor = field(repr=False)
    placed: Placed = field(repr=False)
    ledger: Ledger = field(repr=False)

    @classmethod
    def create(cls, placed: Placed, ledger: Ledger) -> LossScale:
        """Make the variables on the device of the global step."""
        scale = create_variable(NAME, lambda: tf.constant(INITIAL_SCALE, tf.float32), placed, ledger)
        good = create_variable(f"{NAME}/good_steps", lambda: tf.constant(0, tf.int64), placed, ledger)
        # without the number, its name would be that of a scope in upper case
        value = ledger.writer("read").read(f"{NAME}/read_1", scale.tensor, placed)
        return cls(scale, good, value, placed, ledger)

    def saved(self) -> dict[str, Any]:
        """Return the variables of a checkpoint by name."""
        return {NAME: self.scale, f"{NAME}/good_steps": self.good_steps}

    def times(self, share: float, clone: int) -> Tensor:
        """Return the factor on a tower's loss: its share times the scale."""
        at = Spot(self.ledger.writer("update"), f"{NAME}/clone_{clone}", self.placed)
        return at.op("Mul", "factor", self.value, share)[0]

    def follow(self, at: Spot, finite: Tensor) -> list[str]:
        """Write what halves the scale after a step that is not `finite`, and doubles it after good ones."""
        return write_traced(at, _follow, finite, self.value, self.scale.tensor, self.good_steps.tensor)


def _follow(finite: tf.Tensor, value: tf.Tensor, scale: tf.Tensor, good_steps: tf.Tensor) -> list[Any]:
    good = tf.raw_ops.ReadVariableOp(resource=good_steps, dtype=tf.int64)
    grown = tf.equal(good, GROWTH_STEPS - 1)
    factor = tf.where(finite, tf.where(grown, 2.0, 1.0), 0.5)
    count = tf.where(tf.logical_and(finite, tf.logical_not(grown)), good + 1, tf.zeros_like(good))
    return [
        tf.raw_ops.AssignVariableOp(resource=scale, value=value * factor),
        tf.raw_ops.AssignVariableOp(resource=good_steps, value=count),
    ]
