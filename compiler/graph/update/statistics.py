"""New values of statistics (moving means of batch normalisation): clone 0's, or the mean of all clones'."""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.variables.variables import GraphVariable


def new_statistic(assembly: Assembly, variable: GraphVariable) -> tf.Tensor | None:
    """Return the value that a variable has after the step; None for what is no statistic.

    In a mean clones count by their examples. What is not a floating-point number has no mean, so there it is
    clone 0's. Synchronized, the clones' statistics are equal.
    """
    towers = [each for each in assembly.towers if variable.name in each.template.state_updates]
    if not towers:
        return None
    values = [each.tensor(each.template.state_updates[variable.name]) for each in towers]
    if assembly.plan.update.batch_norm != "mean" or len(towers) == 1 or not values[0].dtype.is_floating:
        return values[0]
    examples = sum(each.tower.batch for each in towers)
    place = assembly.ledger.place(variable.beside(), "aggregate")
    with place, tf.name_scope(f"aggregate/{variable.name}/"):
        parts = [
            value * tf.constant(each.tower.batch / examples, value.dtype)
            for each, value in zip(towers, values, strict=True)
        ]
        return tf.add_n(parts, name="mean")
