"""New values of statistics, such as moving means of batch normalization: those of clone 0, or their mean."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.collect import copy_name
from compiler.graph.gradients.unscale import Gate
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.step_nodes import GraphStep
from compiler.graph.update.variable.reads import reads_of
from compiler.graph.variables.variables import GraphVariable
from compiler.step.means import mean
from compiler.step.pieces import cut_value
from compiler.step.record import Tensor


def new_statistics(assembly: Assembly) -> list[tuple[GraphVariable, tf.Tensor]]:
    """Return the variables that are statistics, or pieces of one, each with its value after the step.

    In a mean, clones are weighted by their examples. A statistic that is not a floating-point number has no
    mean, so its value is that of clone 0. Synchronized statistics are equal in all clones.

    Args:
        assembly: The graph under construction, with its towers stamped.
    """
    step = GraphStep(assembly.graph, assembly.ledger, "aggregate")
    variables: list[GraphVariable] = []
    means: list[Tensor] = []
    for weight in dict.fromkeys(each.weight for each in assembly.variables.values()):
        towers = [each for each in assembly.towers if weight in each.template.state_updates]
        if not towers:
            continue
        if assembly.plan.update.batch_norm != "mean" or not _own_value(towers[0], weight).dtype.is_floating:
            towers = towers[:1]
        pieces = assembly.pieces_of(weight)
        examples = sum(each.tower.batch for each in towers)
        shares = {each.tower.index: each.tower.batch / examples for each in towers}
        values = [_cut(step, each, pieces) for each in towers]
        for variable, *own in zip(pieces, *values, strict=True):
            of_clones = dict(zip(shares, own, strict=True))
            means.append(mean(step.writer, variable.name, of_clones, shares, variable.beside()))
            variables.append(variable)
    step.finish()
    return [(each, step.made(value)) for each, value in zip(variables, means, strict=True)]


def _own_value(tower: StampedTower, weight: str) -> tf.Tensor:
    return tower.tensor(tower.template.state_updates[weight])


def _cut(step: GraphStep, tower: StampedTower, pieces: Sequence[GraphVariable]) -> Sequence[Tensor]:
    """Return the value that a tower has for a statistic, or those for its pieces, cut where it was made."""
    value = _own_value(tower, pieces[0].weight)
    shards = [each.info.shard for each in pieces if each.info.shard is not None]
    given = step.tensor(value)
    if not shards:
        return [given]
    place = step.ledger.entries[value.op.name].placed
    return cut_value(
        step.writer, f"aggregate/{pieces[0].weight}/clone_{tower.tower.index}", given, shards, place
    )


def update_statistics(assembly: Assembly, gate: Gate | None = None) -> list[tf.Operation]:
    """Give every statistic, such as a moving mean, its new value; return the ops that end this.

    Args:
        assembly: The graph under construction, with its towers stamped.
        gate: Runs the ops in good steps only, or None if every step is good.
    """
    return assign_statistics(assembly, new_statistics(assembly), gate)


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
    step = GraphStep(assembly.graph, assembly.ledger, "update")
    names = [_write_assign(assembly, step, *each) for each in copies]
    step.finish()
    return [step.op(each) for each in names]


def _write_assign(
    assembly: Assembly, step: GraphStep, variable: GraphVariable, copy: int, new: tf.Tensor
) -> str:
    """Write the op that gives a copy of a statistic its new value; return its name."""
    name = step.writer.unique(f"{assembly.scope}/{copy_name(variable, copy)}/AssignVariableOp")
    handle, value = step.variable(variable.copies[copy]), step.tensor(new)
    waits = [each.name for each in reads_of(assembly, variable, copy)]
    return step.writer.assign(name, handle, value, variable.beside(copy), waits)


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
