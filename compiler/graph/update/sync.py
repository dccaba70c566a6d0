"""Synchronous update: every clone's gradient at the same weights, summed, applied once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from compiler.graph.aggregate import AGGREGATIONS
from compiler.graph.aggregate.base import Reduction
from compiler.graph.assembly import Assembly
from compiler.graph.optimizers.base import Scalars
from compiler.graph.regularize import add_regularization
from compiler.graph.variables import GraphVariable
from compiler.plan import Placed


def build_sync(assembly: Assembly) -> tf.Operation:
    """Add aggregation, apply ops, moving averages and new statistics; return the op that does a step."""
    scalars = _scalars(assembly)
    done = [
        op
        for variable in assembly.variables.values()
        for op in (
            _train(assembly, variable, scalars)
            if variable.info.trainable
            else _follow_statistics(assembly, variable)
        )
    ]
    with assembly.ledger.place(assembly.step_place, "update"), tf.control_dependencies(done):
        return tf.raw_ops.AssignAddVariableOp(
            resource=assembly.global_step.handle, value=tf.constant(1, tf.int64), name="train_step"
        )


def _scalars(assembly: Assembly) -> Scalars:
    assert assembly.optimizer is not None
    with assembly.ledger.place(assembly.step_place, "update"), tf.name_scope("update/scalars/"):
        return assembly.optimizer.scalars(assembly.read_step())


def _train(assembly: Assembly, variable: GraphVariable, scalars: Scalars) -> list[tf.Operation]:
    """Aggregate, regularise and apply the gradient of a variable, at each of its copies."""
    if any(variable.name not in tower.template.gradients for tower in assembly.towers):
        return []
    reduction = Reduction(
        variable.name,
        [tower.gradient(variable.name) for tower in assembly.towers],
        [tower.tower for tower in assembly.towers],
        _destinations(assembly, variable),
    )
    totals = AGGREGATIONS[assembly.plan.update.aggregate.name](reduction, assembly.ledger)
    return [
        op for copy, total in enumerate(totals) for op in _apply(assembly, variable, copy, total, scalars)
    ]


def _destinations(assembly: Assembly, variable: GraphVariable) -> Sequence[Placed]:
    if variable.replicated:
        return [variable.beside(copy) for copy in range(len(variable.copies))]
    return [assembly.rulebook.updates(variable.placement)]


def _apply(
    assembly: Assembly, variable: GraphVariable, copy: int, gradient: Any, scalars: Scalars
) -> list[tf.Operation]:
    assert assembly.optimizer is not None
    reads = _reads(assembly, variable, copy)
    handle = variable.copies[copy].handle
    slots = [variable.slots[each][copy].handle for each in assembly.optimizer.slots]
    where = variable.name if copy == 0 else f"{variable.name}/replica_{copy}"
    with assembly.ledger.place(variable.beside(copy), "update"), tf.name_scope(f"update/{where}/"):
        gradient = add_regularization(variable, copy, gradient)
        if isinstance(gradient, tf.IndexedSlices):
            gradient = merge_rows(gradient)
        with tf.control_dependencies(reads):
            applied = assembly.optimizer.apply(handle, slots, gradient, scalars)
        if variable.info.constraint is not None:
            applied = _constrain(variable, copy, applied)
        if copy == 0 and variable.average is not None:
            return [_average(assembly, variable, applied)]
    return [applied]


def _reads(assembly: Assembly, variable: GraphVariable, copy: int) -> list[tf.Operation]:
    """Return the reads of a copy by the towers, which must be over before it changes."""
    readers = [each for each in assembly.towers if variable.copy_of(each.tower.index) == copy]
    return [each.read(variable.name) for each in readers if variable.name in each.template.weights]


def merge_rows(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """Sum the rows of equal index, which the optimizers expect to be distinct."""
    indices, positions = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, positions, tf.shape(indices)[0])
    return tf.IndexedSlices(values, indices)


def _constrain(variable: GraphVariable, copy: int, applied: tf.Operation) -> tf.Operation:
    """Project a weight as its Keras constraint asks, after the update."""
    handle = variable.copies[copy].handle
    with tf.control_dependencies([applied]):
        new = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.info.dtype)
        return tf.raw_ops.AssignVariableOp(resource=handle, value=variable.info.constraint(new))


def _average(assembly: Assembly, variable: GraphVariable, applied: tf.Operation) -> tf.Operation:
    """Move the average of a weight by (1 - decay) towards its new value."""
    decay, dtype = assembly.plan.update.ema, variable.info.dtype
    assert decay is not None
    with tf.control_dependencies([applied]):
        new = tf.raw_ops.ReadVariableOp(resource=variable.copies[0].handle, dtype=dtype)
    old = tf.raw_ops.ReadVariableOp(resource=variable.average.handle, dtype=dtype)
    return tf.raw_ops.AssignSubVariableOp(resource=variable.average.handle, value=(old - new) * (1.0 - decay))


def _follow_statistics(assembly: Assembly, variable: GraphVariable) -> list[tf.Operation]:
    """Take the new value of a statistic (a moving mean, say) from clone 0, for every copy."""
    first = assembly.towers[0]
    update = first.template.state_updates.get(variable.name)
    if update is None:
        return []
    new = first.tensor(update)
    assigned = []
    for copy, each in enumerate(variable.copies):
        reads = _reads(assembly, variable, copy)
        with (
            assembly.ledger.place(variable.beside(copy), "update"),
            tf.name_scope(f"update/{variable.name}/"),
            tf.control_dependencies(reads),
        ):
            assigned.append(tf.raw_ops.AssignVariableOp(resource=each.handle, value=new))
    return assigned
