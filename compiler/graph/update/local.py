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

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.update.apply import step_scalars
from compiler.graph.update.statistics import ADDED, MOVED, update_statistics
from compiler.graph.update.step import Updates, build_update, count_update
from compiler.graph.variables.variables import GraphVariable
from compiler.plan import Plan, Tower
from compiler.reasons import Placed
from compiler.step.record import Run, Tensor, Value
from compiler.step.sums import Reduction, reduce_all
from compiler.step.values import dense
from compiler.step.writer import Spot, StepWriter


@frozen
class Family:
    """The copies of a weight, statistic or slot, one for each clone."""

    name: str
    copies: Sequence[Any]
    places: Sequence[Placed]
    first: bool  # whether all copies become equal to copy 0, and not to their mean


_New: TypeAlias = tuple[Family, int, Value]
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
    families = [family_of(assembly, each) for each in changing(assembly)]
    published = publish(assembly, "publish", shares_of(assembly.plan, assembly.plan.towers), families)
    rates, gradients = scalars.learning_rates, updates[0].gradients
    return Updates(train_op, rates, publish_op=published, gradients=gradients)


def _end(alone: Assembly, done: Sequence[str]) -> str:
    """Return the name of the op that runs after all updates of a clone.

    Each of its copies is averaged after all of them, and would wait for as many ops as there are copies.
    """
    writer, placed = alone.ledger.writer("update"), alone.ledger.entries[done[0]].placed
    return writer.after(f"{alone.scope}/ended", done, placed)


def _average_when_due(assembly: Assembly, done: Mapping[int, str]) -> str:
    """Return the name of the op that ends the averaging in steps in which it is due, else the updates."""
    ledger, every = assembly.ledger, assembly.plan.update.average_every
    assert every is not None
    at = Spot(ledger.writer("update"), "average", assembly.step_place)
    due = write_traced(at, _is_due, at.read(assembly.global_step.tensor), every=every)
    no, yes = at.op("Switch", "switch", due, due)
    (open_,), (closed,) = at.op("Identity", "yes", yes), at.op("Identity", "no", no)
    families = list(families_of(assembly))
    averaged = [each for each in families if not each.first]
    writer, shares = ledger.writer("aggregate"), shares_of(assembly.plan, assembly.plan.towers)
    waits = {clone: (open_.op, each) for clone, each in done.items()}
    parts = [write_parts(writer, each, f"average/{each.name}", shares, waits) for each in averaged]
    reductions = [
        Reduction(f"average/{each.name}", own, each.places, each.places, writer, number)
        for number, (each, own) in enumerate(zip(averaged, parts, strict=True))
    ]
    means = reduce_all(reductions, assembly.plan.update)
    new = [
        (each, copy, value)
        for each, copies in zip(averaged, means, strict=True)
        for copy, value in enumerate(copies)
    ]
    after = (open_.op, *done.values())
    new += [found for each in families if each.first for found in _follow(writer, each, after)]
    names = _assign(writer, new)
    (ended,) = at.waiting(names).op("Identity", "ended", open_)
    return at.run("Merge", "over", closed, ended)


def _is_due(step: tf.Tensor, every: int) -> tf.Tensor:
    return tf.equal((step + 1) % every, 0, name="due")


def families_of(assembly: Assembly) -> Iterator[Family]:
    """Yield what is averaged: weights, statistics, and slots if the spec asks for it, but nothing frozen."""
    for variable in changing(assembly):
        yield family_of(assembly, variable)
        if assembly.plan.update.average_slots:
            for suffix, slots in variable.slots.items():
                places = [variable.slot_place(copy) for copy in range(len(slots))]
                counts = not slots[0].dtype.is_floating
                yield Family(f"{variable.name}/{suffix}", slots, places, first=counts)


def changing(assembly: Assembly) -> Iterator[GraphVariable]:
    """Yield the variables of which training changes each copy by itself. Copies of others stay equal."""
    statistics = {
        name
        for each in assembly.towers
        for name in each.template.state_updates
        if assembly.pieces_of(name)[0].info.declared != "sum"
    }
    return (each for each in assembly.variables.values() if each.info.trainable or each.weight in statistics)


def family_of(assembly: Assembly, variable: GraphVariable) -> Family:
    """Return the copies of a variable; those of statistics follow clone 0 unless their mean is used."""
    is_float = tf.as_dtype(variable.info.dtype).is_floating
    join = variable.info.joined(assembly.plan.update.batch_norm)
    follows_first = not variable.info.trainable and join == "first"
    return Family(
        variable.name,
        variable.copies,
        [variable.beside(copy) for copy in range(len(variable.copies))],
        first=follows_first or not is_float,
    )


def shares_of(plan: Plan, towers: Sequence[Tower]) -> Mapping[int, float]:
    """Return the parts of an update's batch that clones take, by their numbers in the deployment."""
    return {tower.number: plan.share(tower) for tower in towers}


def write_parts(
    writer: StepWriter,
    family: Family,
    scope: str,
    shares: Mapping[int, float],
    waits: Mapping[int, Sequence[str]] | None = None,
) -> list[Tensor]:
    """Write the value of each copy times the share of its clone; `shares` are in the order of the copies."""
    found: list[Tensor] = []
    for (clone, part), copy, place in zip(shares.items(), family.copies, family.places, strict=True):
        own = f"{scope}/copy_{clone}"
        value = writer.read(f"{own}/ReadVariableOp", copy.tensor, place, (waits or {}).get(clone, ()))
        share = writer.constant(f"{own}/of_batch", part, value.dtype, place)
        found += writer.write("Mul", f"{own}/share", (value, share), place)
    return found


def _follow(writer: StepWriter, family: Family, after: Sequence[str]) -> list[_New]:
    """Return the value of copy 0 after the update, for each other copy."""
    name, first = f"average/{family.name}/copy_0/ReadVariableOp", family.copies[0].tensor
    value = writer.read(name, first, family.places[0], after)
    return [(family, copy, value) for copy in range(1, len(family.copies))]


def _assign(writer: StepWriter, new: Sequence[_New]) -> list[str]:
    """Write the ops that give copies their new values; return their names.

    They are written clone by clone: the first clone has no statistics to assign if the others follow its own,
    so that only this order is the same for any number of clones.
    """
    names = []
    for family, copy, value in sorted(new, key=lambda each: each[1]):
        target, name = family.copies[copy].tensor, f"average/{family.name}/copy_{copy}/assign"
        names.append(writer.assign(name, target, dense(value), family.places[copy], role="update"))
    return names


def publish(assembly: Assembly, scope: str, shares: Mapping[int, float], families: Sequence[Family]) -> Run:
    """Write what gives the variables that are evaluated and saved the means of copies.

    Args:
        shares: The share of each clone by its number, in the order of the copies.
    """
    writer, names = assembly.ledger.writer("save"), []
    for family in families:
        variable, own = assembly.variables[family.name], f"{scope}/{family.name}"
        if family.first:
            value = writer.read(f"{own}/ReadVariableOp", family.copies[0].tensor, family.places[0])
        else:
            parts = write_parts(writer, family, own, shares)
            value = writer.add(f"{own}/mean", parts, variable.beside())
        names.append(writer.assign(f"{own}/AssignVariableOp", variable.mean.tensor, value, variable.beside()))
    return Run(writer.after(scope, names, assembly.step_place))
