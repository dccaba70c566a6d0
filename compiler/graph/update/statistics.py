"""New values of what changes without gradients, such as moving means of batch normalization.

They are those of clone 0, their mean, or the sum of all changes, as for a count of examples.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import frozen

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.unscale import Gate
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.tower.template import Join
from compiler.graph.update.apply import reads_of
from compiler.graph.variables.variables import GraphVariable, copy_name
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.values import cut_value
from compiler.step.writer import Spot, StepWriter

ALL: frozenset[Join] = frozenset({"first", "mean", "sum"})
MOVED: frozenset[Join] = frozenset({"first", "mean"})
ADDED: frozenset[Join] = frozenset({"sum"})


@frozen
class Statistic:
    """A variable that is a statistic, or a piece of one, after a step."""

    variable: GraphVariable
    join: Join
    value: Tensor  # its new value; for a sum, what is added to the value before


def new_statistics(
    assembly: Assembly, joins: Collection[Join] = ALL, *, sent: bool = False
) -> list[Statistic]:
    """Return the statistics with their values after the step.

    In a mean, clones are weighted by their examples. Synchronized statistics are equal in all clones.

    Args:
        sent: Whether their means are sent elsewhere, and so are made where those of the first clone are.
    """
    writer = assembly.ledger.writer("aggregate")
    made: list[Statistic] = []
    for weight in dict.fromkeys(each.weight for each in assembly.variables.values()):
        towers = [each for each in assembly.towers if weight in each.template.state_updates]
        pieces = assembly.pieces_of(weight)
        join = pieces[0].info.joined(assembly.plan.update.batch_norm)
        if not towers or join not in joins or weight in assembly.giving:
            continue
        if join == "first":
            towers = towers[:1]
        examples = sum(each.tower.batch for each in towers)
        shares = {each.tower.index: each.tower.batch / examples for each in towers}
        values = [_cut(assembly, writer, each, pieces) for each in towers]
        for variable, *own in zip(pieces, *values, strict=True):
            of_clones, beside = dict(zip(shares, own, strict=True)), variable.beside()
            home = assembly.ledger.entries[own[0].op].placed if sent else beside
            if join == "sum":
                before = {each.tower.index: _read_by(assembly, each, variable) for each in towers}
                joined = change(writer, variable.name, of_clones, before, beside)
            else:
                joined = mean(writer, variable.name, of_clones, shares, home)
            made.append(Statistic(variable, join, joined))
    return made


def _read_by(assembly: Assembly, tower: StampedTower, variable: GraphVariable) -> Tensor:
    """Return the value of a variable that a tower has read, or its value now if the tower reads none."""
    shard = variable.info.shard
    reads = tower.reads(variable.weight, None if shard is None else shard.number)
    if reads:
        return Tensor(reads[0], variable.info.dtype, tuple(variable.info.shape))
    at = Spot(assembly.ledger.writer("aggregate"), f"aggregate/{variable.name}", variable.beside())
    return at.read(variable.copies[0].tensor)


def _cut(
    assembly: Assembly, writer: StepWriter, tower: StampedTower, pieces: Sequence[GraphVariable]
) -> Sequence[Tensor]:
    """Return the value that a tower has for a statistic, or those for its pieces, cut where it was made."""
    value = tower.record(tower.template.state_updates[pieces[0].weight])
    shards = [each.info.shard for each in pieces if each.info.shard is not None]
    if not shards:
        return [value]
    place = assembly.ledger.entries[value.op].placed
    return cut_value(writer, f"aggregate/{pieces[0].weight}/clone_{tower.tower.index}", value, shards, place)


def changed(assembly: Assembly, statistic: Statistic) -> tuple[GraphVariable, Tensor]:
    """Return the variable of a statistic with its new value."""
    variable, value = statistic.variable, statistic.value
    if statistic.join == "sum":
        at = Spot(assembly.ledger.writer("update"), f"{assembly.scope}/{variable.name}", variable.beside())
        return variable, at.op("AddV2", "add", at.read(variable.copies[0].tensor), value)[0]
    return variable, value


def update_statistics(
    assembly: Assembly, gate: Gate | None = None, joins: Collection[Join] = ALL
) -> list[str]:
    """Give every statistic, such as a moving mean, its new value; return the names of the ops that end it."""
    new = [changed(assembly, each) for each in new_statistics(assembly, joins)]
    return assign_statistics(assembly, new, gate)


def add_changes(assembly: Assembly) -> list[str]:
    """Add what the towers have changed in statistics that are sums, whatever others add meanwhile."""
    done = []
    for each in new_statistics(assembly, ADDED):
        scope, handle = f"{assembly.scope}/{each.variable.name}", each.variable.copies[0].tensor
        at = Spot(assembly.ledger.writer("update"), scope, each.variable.beside())
        done.append(at.run("AssignAddVariableOp", "AssignAddVariableOp", handle, each.value))
    return done


def assign_statistics(
    assembly: Assembly, new: Sequence[tuple[GraphVariable, Tensor]], gate: Gate | None = None
) -> list[str]:
    """Give every copy of some statistics a new value; return the names of the ops that end this."""
    writer, names = assembly.ledger.writer("update"), []
    for variable, value in new:
        for copy, each in enumerate(variable.copies):
            at = Spot(writer, f"{assembly.scope}/{copy_name(variable.name, copy)}", variable.beside(copy))
            at = at if gate is None else at.waiting(gate.at(at.placed))
            names.append(at.waiting(reads_of(assembly, variable, copy)).assign(each.tensor, value))
    return names


# --- means of what clones have for a statistic, and sums of what they have changed in it ------------------


def mean(
    writer: StepWriter, name: str, values: Mapping[int, Tensor], shares: Mapping[int, float], placed: Placed
) -> Tensor:
    """Return the mean of some values, in which each counts as much as its clone has examples.

    Args:
        values: The value of each clone by its number; a single one is its own mean.
    """
    if len(values) == 1:
        return next(iter(values.values()))
    parts: list[Tensor] = []
    for clone, value in values.items():
        scope = f"aggregate/{name}/clone_{clone}"
        share = writer.constant(writer.unique(f"{scope}/Const"), shares[clone], value.dtype, placed)
        parts += writer.write("Mul", writer.unique(f"{scope}/mul"), (value, share), placed)
    return writer.add(f"aggregate/{name}/mean", parts, placed)


def change(
    writer: StepWriter, name: str, values: Mapping[int, Tensor], before: Mapping[int, Tensor], placed: Placed
) -> Tensor:
    """Return the sum of what clones have changed in a statistic."""
    parts: list[Tensor] = []
    for clone, value in values.items():
        own = writer.unique(f"aggregate/{name}/clone_{clone}/sub")
        parts += writer.write("Sub", own, (value, before[clone]), placed)
    return writer.add(f"aggregate/{name}/change", parts, placed)
