"""Moving averages of weights, which move after each update."""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.variables.variables import GraphVariable

AVERAGE_RATE = "average_rate"
"""The name of the scalar by which averages move, if that changes from step to step."""


def average_rate(decay: float, step: tf.Tensor) -> tf.Tensor:
    """Return one minus the decay of an average that warms up, for the update after `step`.

    The decay is min(decay, (1 + n) / (10 + n)). `n` counts that update, as `num_updates` in TensorFlow's
    tutorials does.

    Args:
        decay: The decay that the average has once it is warm, from 0 to 1.
        step: The global step before the update, an int64 scalar.
    """
    n = tf.cast(step + 1, tf.float32)
    return tf.subtract(1.0, tf.minimum(decay, (1.0 + n) / (10.0 + n)), name=AVERAGE_RATE)


def move_average(
    assembly: Assembly, variable: GraphVariable, new: tf.Tensor, scalars: StepScalars
) -> tf.Operation:
    """Move the average of a weight, or of a part of one, by (1 - decay) towards its new value.

    Args:
        assembly: The graph under construction.
        variable: The variable.
        new: Its value after the update.
        scalars: The scalars of the step.

    Returns:
        The op that does it, on the device of the average.
    """
    averaging, dtype = assembly.plan.update.averaging, variable.info.dtype
    assert averaging is not None
    average = variable.average.handle
    with assembly.ledger.place(variable.slot_place(0), "update"):
        old = tf.raw_ops.ReadVariableOp(resource=average, dtype=dtype)
        rate = 1.0 - averaging.decay if scalars.average_rate is None else tf.cast(scalars.average_rate, dtype)
        return tf.raw_ops.AssignSubVariableOp(resource=average, value=(old - new) * rate)
