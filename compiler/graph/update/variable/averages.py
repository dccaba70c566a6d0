"""Moving averages of weights, which move after each update."""

from __future__ import annotations

import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.optimizers.groups import StepScalars
from compiler.graph.variables.variables import GraphVariable
from compiler.step.record import Tensor
from compiler.step.writer import Spot

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
    assembly: Assembly, at: Spot, variable: GraphVariable, new: Tensor, scalars: StepScalars
) -> str:
    """Move the average of a weight, or of a part of one, by (1 - decay) towards its new value.

    Returns:
        The name of the op that does it, on the device of the average.
    """
    averaging, at = assembly.plan.update.averaging, evolve(at, placed=variable.slot_place(0))
    assert averaging is not None
    old, rate = at.read(variable.average.tensor), scalars.average_rate
    if rate is not None:
        rate = at.cast(rate, variable.info.dtype)
    (away,) = at.op("Sub", "sub", old, new)
    (change,) = at.op("Mul", "mul", away, 1.0 - averaging.decay if rate is None else rate)
    return at.run("AssignSubVariableOp", "AssignSubVariableOp", variable.average.tensor, change)
