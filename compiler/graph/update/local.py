"""Local update: every clone trains its own copy, and the copies are averaged every `average_every` steps.

Between two averagings nothing is sent from clone to clone. Averaging is a part of the step: its ops depend on
a switch that is open in every `average_every`-th step. The copies are weighted by their clones' shares of the
global batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.tensorflow_private import add_control_input
from compiler.graph.assembly import Assembly
from compiler.graph.ledger import Ledger
from compiler.graph.node_writer import NodeWriter
from compiler.graph.step_nodes import GraphStep
from compiler.graph.update.step import Updates, build_update, count_update
from compiler.graph.update.variable.apply import step_scalars
from compiler.graph.update.variable.statistics import ADDED, MOVED, update_statistics
from compiler.graph.variables.variables import GraphVariable
from compiler.reasons import Placed
from compiler.step.sums import Reduction, reduce_all


@frozen
class _Family:
    """The copies of a weight, statistic or slot, one for each clone.

    Attributes:
        name: Its name.
        copies: The variables.
        places: Their places.
        first: Whether all copies become equal to copy 0, and not to their mean.
    """

    name: str
    copies: Sequence[Any]
    places: Sequence[Placed]
    first: bool = False


_New: TypeAlias = tuple[_Family, int, tf.Tensor]
"""What has copies, the number of a copy, and its new value."""


def build_local(assembly: Assembly) -> Updates:
    """Add each clone's own update, the averaging of the copies, and the ops that publish their mean."""
    scalars = step_scalars(assembly)
    updates = [build_update(assembly.alone(tower.tower.index), scalars, MOVED) for tower in assembly.towers]
    done = {
        tower.tower.index: _end(assembly.alone(tower.tower.index), each.done)
        for tower, each in zip(assembly.towers, updates, strict=True)
    }
    added = update_statistics(assembly, joins=ADDED)
    train_op = count_update(assembly, [*done.values(), *added, _average_when_due(assembly, done)])
    return Updates(
        train_op,
        scalars.learning_rates,
        publish_op=_publish(assembly),
        gradients=updates[0].gradients,
    )


def _end(alone: Assembly, done: Sequence[tf.Operation]) -> tf.Operation:
    """Return the op that runs after all updates of a clone.

    Each of its copies is averaged after all of them, and would wait for as many ops as there are copies.
    """
    ledger = alone.ledger
    with ledger.place(ledger.entries[done[0].name].placed, "update"), tf.control_dependencies(done):
        return tf.no_op(name=f"{alone.scope}/ended")


def _average_when_due(assembly: Assembly, done: Mapping[int, tf.Operation]) -> tf.Operation:
    """Return the op that ends the averaging in the steps in which it is due, and the updates in others.

    Args:
        assembly: The graph under construction.
        done: The op that ends the update of each clone.
    """
    ledger, every = assembly.ledger, assembly.plan.update.average_every
    assert every is not None
    with ledger.place(assembly.step_place, "update"), tf.name_scope("average/"):
        due = tf.equal((assembly.read_step() + 1) % every, 0, name="due")
        switch = tf.raw_ops.Switch(data=due, pred=due, name="switch")
        open_, closed = (
            tf.identity(switch.output_true, name="yes"),
            tf.identity(switch.output_false, name="no"),
        )
    families = list(_families(assembly))
    averaged = [each for each in families if not each.first]
    step = GraphStep(assembly.graph, ledger, "aggregate")
    means = reduce_all(_reductions(assembly, step, averaged, open_, done), assembly.plan.update)
    step.finish()
    new = [
        (each, copy, step.made(value))
        for each, copies in zip(averaged, means, strict=True)
        for copy, value in enumerate(copies)
    ]
    new += [found for each in families if each.first for found in _follow(ledger, each, open_, done)]
    assigned = _assign(assembly, new)
    with ledger.place(assembly.step_place, "update"), tf.name_scope("average/"):
        with tf.control_dependencies(assigned):
            ended = tf.identity(open_, name="ended")
        return tf.raw_ops.Merge(inputs=[closed, ended], name="over").output.op


def _families(assembly: Assembly) -> Iterator[_Family]:
    """Yield what is averaged: weights, statistics, and slots if the spec asks for it, but nothing frozen."""
    for variable in changing(assembly):
        yield _family(assembly, variable)
        if assembly.plan.update.average_slots:
            for suffix, slots in variable.slots.items():
                places = [variable.slot_place(copy) for copy in range(len(slots))]
                counts = not slots[0].dtype.is_floating
                yield _Family(f"{variable.name}/{suffix}", slots, places, first=counts)


def changing(assembly: Assembly) -> Iterator[GraphVariable]:
    """Yield the variables of which training changes each copy by itself. Copies of others stay equal."""
    statistics = {
        name
        for each in assembly.towers
        for name in each.template.state_updates
        if assembly.pieces_of(name)[0].info.declared != "sum"
    }
    return (each for each in assembly.variables.values() if each.info.trainable or each.weight in statistics)


def _family(assembly: Assembly, variable: GraphVariable) -> _Family:
    """Return the copies of a variable; those of statistics follow clone 0 unless their mean is used."""
    is_float = tf.as_dtype(variable.info.dtype).is_floating
    join = variable.info.joined(assembly.plan.update.batch_norm)
    follows_first = not variable.info.trainable and join == "first"
    return _Family(
        variable.name,
        variable.copies,
        [variable.beside(copy) for copy in range(len(variable.copies))],
        first=follows_first or not is_float,
    )


def _reductions(
    assembly: Assembly,
    step: GraphStep,
    families: Sequence[_Family],
    after: tf.Tensor,
    done: Mapping[int, tf.Operation],
) -> list[Reduction]:
    """Return the sums that are the means of copies: of the value of each after its update, times its share.

    The ops are written as nodes, because there are some for each copy.
    """
    writer = NodeWriter(assembly.graph, assembly.ledger, "aggregate")
    names = [_write_parts(assembly, writer, each, f"average/{each.name}") for each in families]
    writer.finish()
    found = []
    for number, (family, own) in enumerate(zip(families, names, strict=True)):
        values = [assembly.graph.get_tensor_by_name(f"{each}:0") for each in own]
        for tower, value in zip(assembly.plan.towers, values, strict=True):
            for before in (after.op, done[tower.index]):
                add_control_input(value.op.inputs[0].op, before)
        name = f"average/{family.name}"
        given = [step.given(each) for each in values]
        found.append(Reduction(name, given, family.places, family.places, step.writer, number))
    return found


def _write_parts(assembly: Assembly, writer: NodeWriter, family: _Family, scope: str) -> list[str]:
    """Write the value of each copy times the share of its clone; return the names of the products."""
    found = []
    for tower, copy, place in zip(assembly.plan.towers, family.copies, family.places, strict=True):
        own = f"{scope}/copy_{tower.index}"
        value = writer.read(f"{own}/ReadVariableOp", copy.handle, copy.dtype, place)
        share = writer.constant(f"{own}/of_batch", assembly.plan.share(tower), copy.dtype, (), place)
        node = writer.node(f"{own}/share", "Mul", [value, share], place)
        node.attr["T"].type = copy.dtype.as_datatype_enum
        found.append(f"{own}/share")
    return found


def _follow(
    ledger: Ledger, family: _Family, after: tf.Tensor, done: Mapping[int, tf.Operation]
) -> list[_New]:
    """Return the value of copy 0 after the update, for each other copy."""
    first = family.copies[0]
    with (
        ledger.place(family.places[0], "aggregate"),
        tf.name_scope(f"average/{family.name}/copy_0/"),
        tf.control_dependencies([after, *done.values()]),
    ):
        value = tf.raw_ops.ReadVariableOp(resource=first.handle, dtype=first.dtype)
    return [(family, copy, value) for copy in range(1, len(family.copies))]


def _assign(assembly: Assembly, new: Sequence[_New]) -> list[tf.Operation]:
    """Return the ops that give copies their new values.

    They are written clone by clone: the first clone has no statistics to assign if the others follow its own,
    so that only this order is the same for any number of clones.
    """
    writer, names = NodeWriter(assembly.graph, assembly.ledger, "update"), []
    for family, copy, value in sorted(new, key=lambda each: each[1]):
        target, name = family.copies[copy], f"average/{family.name}/copy_{copy}/assign"
        handle, given = writer.given(target.handle), writer.given(value)
        names.append(writer.assign(name, handle, given, target.dtype, family.places[copy]))
    writer.finish()
    return [assembly.graph.get_operation_by_name(each) for each in names]


def _publish(assembly: Assembly) -> tf.Operation:
    """Return the op that writes the mean of the copies to the variables that are evaluated and saved."""
    writer = NodeWriter(assembly.graph, assembly.ledger, "save")
    names = [_publish_one(assembly, writer, each) for each in changing(assembly)]
    writer.finish()
    written = [assembly.graph.get_operation_by_name(each) for each in names]
    with assembly.ledger.place(assembly.step_place, "save"), tf.control_dependencies(written):
        return tf.no_op(name="publish")


def _publish_one(assembly: Assembly, writer: NodeWriter, variable: GraphVariable) -> str:
    """Write what assigns the mean of the copies of a variable; return the name of the op."""
    family, scope = _family(assembly, variable), f"publish/{variable.name}"
    dtype, place, handle = family.copies[0].dtype, variable.beside(), variable.mean.handle
    if family.first:
        value = writer.read(f"{scope}/ReadVariableOp", family.copies[0].handle, dtype, family.places[0])
    else:
        parts = _write_parts(assembly, writer, family, scope)
        value = f"{scope}/mean"
        node = writer.node(value, "AddN", parts, place)
        node.attr["N"].i, node.attr["T"].type = len(parts), dtype.as_datatype_enum
    return writer.assign(f"{scope}/AssignVariableOp", writer.given(handle), value, dtype, place)
