"""Local update: every clone trains its own copy, and the copies are averaged every `average_every` steps.

Between two averagings nothing is sent from clone to clone. Averaging is a part of the step: its ops depend on
a switch that is open in every `average_every`-th step. The copies are weighted by their clones' shares of the
global batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import frozen

from compiler.graph.aggregate import Reduction, reduce_all
from compiler.graph.assembly import Assembly
from compiler.graph.ledger import Ledger
from compiler.graph.update.step import Updates, build_update, count_update
from compiler.graph.update.variable.apply import step_scalars
from compiler.graph.variables.variables import GraphVariable
from compiler.reasons import Placed


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


def build_local(assembly: Assembly) -> Updates:
    """Add each clone's own update, the averaging of the copies, and the ops that publish their mean."""
    scalars = step_scalars(assembly)
    updates = [build_update(assembly.alone(tower.tower.index), scalars) for tower in assembly.towers]
    done = {tower.tower.index: each.done for tower, each in zip(assembly.towers, updates, strict=True)}
    ended = [op for ops in done.values() for op in ops]
    ended.append(_average_when_due(assembly, done))
    train_op = count_update(assembly, ended)
    return Updates(
        train_op,
        scalars.learning_rates,
        publish_op=_publish(assembly),
        gradients=updates[0].gradients,
    )


def _average_when_due(assembly: Assembly, done: Mapping[int, Sequence[tf.Operation]]) -> tf.Operation:
    """Return the op that ends the averaging in the steps in which it is due, and the updates in others."""
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
    reductions = [_reduction(assembly, each, number, open_, done) for number, each in enumerate(averaged)]
    assigned = [
        _assign(ledger, each, copy, value)
        for each, means in zip(averaged, reduce_all(reductions, assembly.plan.update), strict=True)
        for copy, value in enumerate(means)
    ]
    assigned += [op for each in families if each.first for op in _follow(ledger, each, open_, done)]
    with ledger.place(assembly.step_place, "update"), tf.name_scope("average/"):
        with tf.control_dependencies(assigned):
            ended = tf.identity(open_, name="ended")
        return tf.raw_ops.Merge(inputs=[closed, ended], name="over").output.op


def _families(assembly: Assembly) -> Iterator[_Family]:
    """Yield what is averaged: weights, statistics, and slots if the spec asks for it, but nothing frozen."""
    for variable in _changing(assembly):
        yield _family(assembly, variable)
        if assembly.plan.update.average_slots:
            for suffix, slots in variable.slots.items():
                places = [variable.slot_place(copy) for copy in range(len(slots))]
                counts = not slots[0].dtype.is_floating
                yield _Family(f"{variable.name}/{suffix}", slots, places, first=counts)


def _changing(assembly: Assembly) -> Iterator[GraphVariable]:
    """Yield the variables that training changes. All copies of the others stay equal by themselves."""
    statistics = {name for each in assembly.towers for name in each.template.state_updates}
    return (each for each in assembly.variables.values() if each.info.trainable or each.weight in statistics)


def _family(assembly: Assembly, variable: GraphVariable) -> _Family:
    """Return the copies of a variable; those of statistics follow clone 0 unless their mean is used."""
    is_float = tf.as_dtype(variable.info.dtype).is_floating
    follows_first = not variable.info.trainable and assembly.plan.update.batch_norm == "first"
    return _Family(
        variable.name,
        variable.copies,
        [variable.beside(copy) for copy in range(len(variable.copies))],
        first=follows_first or not is_float,
    )


def _reduction(
    assembly: Assembly,
    family: _Family,
    number: int,
    after: tf.Tensor,
    done: Mapping[int, Sequence[tf.Operation]],
) -> Reduction:
    """Return the sum that is the mean of the copies: the value of each after its update, times its share."""
    plan, values = assembly.plan, []
    for tower, copy, place in zip(plan.towers, family.copies, family.places, strict=True):
        with (
            assembly.ledger.place(place, "aggregate"),
            tf.name_scope(f"average/{family.name}/copy_{tower.index}/"),
            tf.control_dependencies([after, *done[tower.index]]),
        ):
            value = tf.raw_ops.ReadVariableOp(resource=copy.handle, dtype=copy.dtype)
            share = tf.cast(plan.share(tower), copy.dtype)
            values.append(tf.multiply(value, share, name="share"))
    return Reduction(f"average/{family.name}", values, family.places, family.places, assembly.ledger, number)


def _follow(
    ledger: Ledger, family: _Family, after: tf.Tensor, done: Mapping[int, Sequence[tf.Operation]]
) -> list[tf.Operation]:
    """Return the ops that make all copies equal to copy 0 after the update."""
    ended = [op for ops in done.values() for op in ops]
    first = family.copies[0]
    with (
        ledger.place(family.places[0], "aggregate"),
        tf.name_scope(f"average/{family.name}/copy_0/"),
        tf.control_dependencies([after, *ended]),
    ):
        value = tf.raw_ops.ReadVariableOp(resource=first.handle, dtype=first.dtype)
    return [_assign(ledger, family, copy, value) for copy in range(1, len(family.copies))]


def _assign(ledger: Ledger, family: _Family, copy: int, value: tf.Tensor) -> tf.Operation:
    with ledger.place(family.places[copy], "update"), tf.name_scope(f"average/{family.name}/copy_{copy}/"):
        return tf.raw_ops.AssignVariableOp(resource=family.copies[copy].handle, value=value, name="assign")


def _publish(assembly: Assembly) -> tf.Operation:
    """Return the op that writes the mean of the copies to the variables that are evaluated and saved."""
    written = [_publish_one(assembly, each) for each in _changing(assembly)]
    with assembly.ledger.place(assembly.step_place, "save"), tf.control_dependencies(written):
        return tf.no_op(name="publish")


def _publish_one(assembly: Assembly, variable: GraphVariable) -> tf.Operation:
    plan, ledger, family = assembly.plan, assembly.ledger, _family(assembly, variable)
    copies = family.copies[:1] if family.first else family.copies
    values = []
    for copy, place in zip(copies, family.places, strict=False):
        with ledger.place(place, "save"), tf.name_scope(f"publish/{variable.name}/"):
            values.append(tf.raw_ops.ReadVariableOp(resource=copy.handle, dtype=copy.dtype))
    with ledger.place(variable.beside(), "save"), tf.name_scope(f"publish/{variable.name}/"):
        if not family.first:
            shares = [plan.share(tower) for tower in plan.towers]
            values = [tf.add_n([value * share for value, share in zip(values, shares, strict=True)])]
        return tf.raw_ops.AssignVariableOp(resource=variable.mean.handle, value=values[0])
