"""New values of statistics, such as moving means of batch normalization: those of clone 0, or their mean."""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.variables.variables import GraphVariable


def new_statistic(assembly: Assembly, variable: GraphVariable) -> tf.Tensor | None:
    """Return the value of a variable after the step, or None if it is not a statistic.

    In a mean, clones are weighted by their examples. A statistic that is not a floating-point number has no
    mean, so its value is that of clone 0. Synchronized statistics are equal in all clones.

    Args:
        assembly: The graph under construction, with its towers stamped.
        variable: The variable.
    """
    towers = [each for each in assembly.towers if variable.weight in each.template.state_updates]
    if not towers:
        return None
    values = [_own_value(assembly, each, variable) for each in towers]
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


def _own_value(assembly: Assembly, tower: StampedTower, variable: GraphVariable) -> tf.Tensor:
    """Return the value that a tower has for a statistic, or for a piece of one, cut where it was made."""
    value, shard = tower.tensor(tower.template.state_updates[variable.weight]), variable.info.shard
    if shard is None:
        return value
    placed = assembly.ledger.entries[value.op.name].placed
    with assembly.ledger.place(placed, "aggregate"), tf.name_scope(f"aggregate/{variable.name}/"):
        return value[shard.index]
