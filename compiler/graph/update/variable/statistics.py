"""New values of statistics, such as moving means of batch normalization: those of clone 0, or their mean."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from compiler.graph.adapters.tensorflow_private import add_control_input
from compiler.graph.assembly import Assembly
from compiler.graph.gradients.collect import copy_name
from compiler.graph.gradients.unscale import Gate
from compiler.graph.node_writer import NodeWriter
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.update.variable.reads import reads_of
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


def update_statistics(assembly: Assembly, gate: Gate | None = None) -> list[tf.Operation]:
    """Give every statistic, such as a moving mean, its new value; return the ops that end this.

    Args:
        assembly: The graph under construction, with its towers stamped.
        gate: Runs the ops in good steps only, or None if every step is good.
    """
    found = [(each, new_statistic(assembly, each)) for each in assembly.variables.values()]
    return assign_statistics(assembly, [(each, new) for each, new in found if new is not None], gate)


def assign_statistics(
    assembly: Assembly, new: Sequence[tuple[GraphVariable, tf.Tensor]], gate: Gate | None = None
) -> list[tf.Operation]:
    """Give every copy of some statistics a new value; return the ops that end this.

    Args:
        assembly: The graph under construction.
        new: The statistics, each with its value.
        gate: Runs the ops in good steps only, or None if every step is good.
    """
    copies = [(each, copy, value) for each, value in new for copy in range(len(each.copies))]
    if gate is not None:
        return [_assign(assembly, each, copy, value, gate) for each, copy, value in copies]
    writer = NodeWriter(assembly.graph, assembly.ledger, "update")
    with tf.name_scope(""):
        names = [_write_assign(assembly, writer, *each) for each in copies]
    writer.finish()
    done = [assembly.graph.get_operation_by_name(each) for each in names]
    for (variable, copy, _), op in zip(copies, done, strict=True):
        for read in reads_of(assembly, variable, copy):
            add_control_input(op, read)
    return done


def _write_assign(
    assembly: Assembly, writer: NodeWriter, variable: GraphVariable, copy: int, new: tf.Tensor
) -> str:
    """Write the op that gives a copy of a statistic its new value; return its name."""
    scope, handle = f"{assembly.scope}/{copy_name(variable, copy)}", variable.copies[copy].handle
    name = str(writer.graph.unique_name(f"{scope}/AssignVariableOp"))
    dtype, placed = tf.as_dtype(variable.info.dtype), variable.beside(copy)
    return writer.assign(name, writer.given(handle), writer.given(new), dtype, placed)


def _assign(
    assembly: Assembly, variable: GraphVariable, copy: int, new: tf.Tensor, gate: Gate
) -> tf.Operation:
    placed = variable.beside(copy)
    with (
        assembly.ledger.place(placed, "update"),
        gate.at(placed),
        tf.name_scope(f"{assembly.scope}/{copy_name(variable, copy)}/"),
        tf.control_dependencies(reads_of(assembly, variable, copy)),
    ):
        return tf.raw_ops.AssignVariableOp(resource=variable.copies[copy].handle, value=new)
