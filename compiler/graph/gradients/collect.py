"""Sum the gradients of a step over the towers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

from compiler.figures import gathered
from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.weighting import SCOPE, inverse_weights
from compiler.graph.stamp.pieces import DealtRows
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.placement.rules import following
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import SMALL, Rows, Tensor, Value
from compiler.step.sums import Reduction, reduce_all
from compiler.step.values import cut_value, merge_rows, values_of, with_values
from compiler.step.writer import Spot, StepWriter
from compiler.topology import Device


def sum_gradients(assembly: Assembly) -> list[SummedGradient]:
    """Sum the gradients of each variable, for each part of the loss, over the towers.

    The gradients of parts with a weight are divided by it later, unless the sum is one of the means of the
    towers.
    """
    wanted = _in_order_of_backprop(assembly)
    inverses = {tower.tower.index: _inverses(assembly, tower) for tower in assembly.towers}
    writer = assembly.ledger.writer("aggregate")
    summed: list[tuple[int, GraphVariable]] = []
    reductions: list[Reduction] = []
    for part, weight in wanted:
        homes = {each.tower.index: _home_of(assembly, each, part, weight) for each in assembly.towers}
        pieces = cut_gradients(assembly, part, weight, homes)
        for at, variable in enumerate(assembly.updated_of(weight)):
            own = {index: each[at] for index, each in pieces.items()}
            reductions.append(_reduction(assembly, writer, part, variable, len(summed), inverses, homes, own))
            summed.append((part, variable))
    sums = reduce_all(reductions, assembly.plan.update)
    return [
        SummedGradient(variable, tuple(copies), part)
        for (part, variable), copies in zip(summed, sums, strict=True)
    ]


def _in_order_of_backprop(assembly: Assembly) -> list[tuple[int, str]]:
    """Return the weights that have a gradient of a part, in the order in which the gradients are computed.

    Statistics, and weights on which the part does not depend, are left out.
    """
    template = assembly.towers[0].template
    position = {node.name: at for at, node in enumerate(template.graph_def.node)}
    found = [
        (position[gradient.values.partition(":")[0]], part, name)
        for part, each in enumerate(template.losses)
        for name, gradient in each.gradients.items()
        if all(name in tower.template.losses[part].gradients for tower in assembly.towers)
    ]
    return [(part, name) for _, part, name in sorted(found, key=lambda each: each[0])]


def _inverses(assembly: Assembly, tower: StampedTower) -> list[Tensor | None]:
    """Return for each part of the loss the factor on a tower's gradient before it is summed.

    It is one over the tower's own weight if the means of the towers are averaged, else None.
    """
    parts = tower.template.losses
    if assembly.plan.update.reduce != "sum" or all(each.weight is None for each in parts):
        return [None] * len(parts)
    place = Placed(tower.tower.device, tower.tower.reason)
    at = Spot(assembly.ledger.writer("aggregate"), f"aggregate/{SCOPE}/clone_{tower.tower.index}", place)
    return inverse_weights(at, [None if each.weight is None else tower.record(each.weight) for each in parts])


def _reduction(
    assembly: Assembly,
    writer: StepWriter,
    part: int,
    variable: GraphVariable,
    number: int,
    inverses: Mapping[int, Sequence[Tensor | None]],
    places: Mapping[int, Placed],
    gradients: Mapping[int, Value],
) -> Reduction:
    homes = [places[tower.tower.index] for tower in assembly.towers]
    name = f"{variable.name}/part_{part}" if part else variable.name
    values = []
    for tower, home in zip(assembly.towers, homes, strict=True):
        value, factor = gradients[tower.tower.index], inverses[tower.tower.index][part]
        if factor is not None:
            at = Spot(writer, f"aggregate/{name}", home)
            value = with_values(value, at.times(values_of(value), factor))
        values.append(value)
    rank, owner = number % len(homes), None
    if isinstance(variable, VariablePart):
        rank = owner = rank if variable.copy is None else variable.copy
    destinations = _destinations(assembly, variable, homes[rank])
    distinct = variable.info.shard is not None  # rows of equal index are summed before they are cut
    return Reduction(name, values, homes, destinations, writer, number, owner, distinct)


def _home_of(assembly: Assembly, tower: StampedTower, part: int, weight: str) -> Placed:
    """Return the place where a tower has made a gradient."""
    inner = tower.template.losses[part].gradients[weight].values
    placed = assembly.ledger.entries[tower.record(inner).op].placed
    return Placed(placed.device, following(inner.partition(":")[0], placed))


def _destinations(assembly: Assembly, variable: GraphVariable, home: Placed) -> Sequence[Placed]:
    """Return the places that need a sum: those of the variable's updates, or one beside a clone (`home`).

    It is the latter if a worker sends its gradients to others, so that the sum of all its clones is sent
    once.
    """
    if isinstance(assembly.plan, WorkerPlan):
        return [home]
    if isinstance(variable, VariablePart):
        return [variable.beside()]
    if variable.replicated:
        return [variable.beside(copy) for copy in range(len(variable.copies))]
    return [assembly.rulebook.updates(variable.placement)]


def cut_gradients(
    assembly: Assembly, part: int, weight: str, homes: Mapping[int, Placed]
) -> dict[int, list[Value]]:
    """Return the pieces of each tower's gradient of a weight, by the number of the tower.

    Args:
        weight: The weight; its pieces are its variables, or the parts that its clones update. If it is whole,
            its gradient is its only piece.
    """
    shards = [each.info.shard for each in assembly.updated_of(weight)]
    pieces = [each for each in shards if each is not None]
    scope = f"aggregate/{weight}/part_{part}" if part else f"aggregate/{weight}"
    return {
        tower.tower.index: _cut(assembly, tower, part, weight, pieces, homes[tower.tower.index], scope)
        for tower in assembly.towers
    }


def _cut(
    assembly: Assembly,
    tower: StampedTower,
    part: int,
    weight: str,
    shards: Sequence[Shard],
    home: Placed,
    scope: str,
) -> list[Value]:
    value = tower.gradient(part, weight)
    if not shards:
        return [value]
    writer, dealt = assembly.ledger.writer("aggregate"), tower.dealt_rows(part, weight)
    if dealt is not None and assembly.ledger.entries[dealt.distinct.op].device != home.device:
        dealt = None  # what the look-up knows would have to be sent
    scope = f"{scope}/clone_{tower.tower.index}"
    if isinstance(value, Tensor):
        return [*cut_value(writer, scope, value, shards, home)]
    if dealt is None:
        value = merge_rows(writer, scope, [value], home)
    copied = None if dealt is None else _copied(assembly, tower, part, weight)
    at = Spot(writer, scope, home)
    return [*write_traced(at, cut_rows, value, dealt, copied, shards=tuple(shards))]


def _copied(assembly: Assembly, tower: StampedTower, part: int, weight: str) -> Copied | None:
    """Return the rows of which those of a gradient are copies, if these were made on the same CPU."""
    gradient, entries = tower.template.losses[part].gradients[weight], assembly.ledger.entries
    copied = gradient.copied
    if copied is None or tower.accumulated is not None:
        return None
    home = entries[tower.tower.op_name(gradient.values.partition(":")[0])].device
    if home.kind != "cpu" or entries[tower.tower.op_name(copied.made_by)].device != home:
        return None
    rows, divisor = tower.use.tensor(copied.rows), copied.divisor
    return Copied(rows, copied.times, None if divisor is None else tower.use.tensor(divisor))


def cut_rows(
    value: tf.IndexedSlices,
    dealt: DealtRows | None = None,
    copied: Copied | None = None,
    *,
    shards: Sequence[Shard],
) -> list[tf.IndexedSlices]:
    """Return the pieces of rows, made on the current device.

    Args:
        value: The rows. Their numbers are distinct, unless it is known how they were dealt. The numbers of
            the pieces are those within the piece, and distinct.
        dealt: How the same rows were dealt to the pieces when they were looked up, if that is known. The
            pieces already have the numbers of their rows then, which are not sent again.
    """
    axis, sizes = shards[0].axis, [each.size for each in shards]
    if dealt is not None:
        total = sum_rows(value.values, dealt.places, tf.size(dealt.distinct), copied)
        lengths = sizes if axis else [tf.size(each) for each in dealt.asked]
        parts = tf.split(total, lengths, axis, name="cut")
        return [tf.IndexedSlices(*each) for each in zip(parts, dealt.asked, strict=True)]
    if axis:
        parts = tf.split(value.values, sizes, axis, name="cut")
        return [tf.IndexedSlices(each, value.indices) for each in parts]
    dtype = value.indices.dtype
    begins = tf.constant([each.start for each in shards], dtype)
    owner = tf.searchsorted(begins[1:], value.indices, side="right", name="owner")
    local = value.indices - tf.gather(begins, owner)
    values = tf.dynamic_partition(value.values, owner, len(shards), name="values")
    indices = tf.dynamic_partition(local, owner, len(shards), name="indices")
    return [tf.IndexedSlices(*each) for each in zip(values, indices, strict=True)]


@frozen
class Copied:
    """Rows of which others are copies: each of `rows` comes several times in a row."""

    rows: Any  # the rows, of which each is there once, with axes of size one for the copies
    times: int
    divisor: Any = None  # the number by which the copies are divided, or None


def sum_rows(rows: tf.Tensor, places: tf.Tensor, count: tf.Tensor, copied: Copied | None = None) -> tf.Tensor:
    """Return the sums of rows, made on the current device.

    Args:
        rows: The rows, of shape [n, width].
        places: For each row the number of the sum that it is added to, of shape [n].
    """
    if copied is None:
        return tf.math.unsorted_segment_sum(rows, places, count)
    shape = copied.rows.shape
    once = tf.reshape(copied.rows, [shape[0], shape[-1]])
    if copied.divisor is not None:  # a mean divides the copies by their number, here before they are copied
        once /= copied.divisor
    numbers = tf.broadcast_to(tf.range(shape[0])[:, tf.newaxis], [shape[0], copied.times])
    return tf.raw_ops.SparseSegmentSumGrad(
        grad=once, indices=places, segment_ids=tf.reshape(numbers, [-1]), output_dim0=count
    )


# --- gradients that go to a server together ---------------------------------------------------------------
#
# A call between two processes takes longer than to copy a few hundred kilobytes, by which small tensors are
# joined and parted again. The rows come first, because TensorFlow need not copy the first part of a tensor to
# part it from the rest.


@frozen
class _Way:
    """What gradients that go together have in common: their type, and where they come from and go to."""

    dtype: str
    source: Device
    target: Device


def send_together(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Return the gradients; those of a worker that go the same way to a server are sent as one tensor."""
    found = list(gradients)
    if not isinstance(assembly.plan, WorkerPlan):
        return found
    ways = gathered((_way(assembly, each), at) for at, each in enumerate(found))
    ways.pop(None, None)
    for number, members in enumerate(each for each in ways.values() if len(each) > 1):
        members.sort(key=lambda at: not isinstance(found[at].copies[0], Rows))
        parted = _sent(assembly, [found[at] for at in members], f"{assembly.scope}/together_{number}")
        for at, value in zip(members, parted, strict=True):
            found[at] = evolve(found[at], copies=(value,))
    return found


def _way(assembly: Assembly, gradient: SummedGradient) -> _Way | None:
    """Return the way of a gradient that may go with others: a small one, or the rows of a batch."""
    variable, value = gradient.variable, gradient.copies[0]
    if len(gradient.copies) > 1 or (isinstance(value, Tensor) and (value.bytes or 0) > SMALL):
        return None
    dtype, source, target = values_of(value).dtype, _home(assembly, gradient).device, variable.beside().device
    return _Way(dtype, source, target) if source.host != target.host else None


def _home(assembly: Assembly, gradient: SummedGradient) -> Placed:
    return assembly.ledger.entries[values_of(gradient.copies[0]).op].placed


def _sent(assembly: Assembly, members: Sequence[SummedGradient], scope: str) -> list[Value]:
    """Join gradients where they are, and part them beside their variables.

    Those of rows are the first members. Their number is not known, so the others are counted from the end.
    """
    values, writer = [each.copies[0] for each in members], assembly.ledger.writer("gradient")
    at = Spot(writer, scope, _home(assembly, members[0]))
    flat = [at.writer.reshape(f"{scope}/Reshape", values_of(each), [-1], at.placed) for each in values]
    joined = at.writer.concat(f"{scope}/joined", flat, 0, at.placed)
    parted: list[Value] = []
    begin: Tensor | int = 0
    left = sum(each.elements or 0 for each in values if isinstance(each, Tensor))
    for each, value in zip(members, values, strict=True):
        at = Spot(writer.on("aggregate"), f"{scope}/{each.variable.name}", each.variable.beside())
        if isinstance(value, Rows):
            row = (value.values.shape or ())[1:]
            rows, begin = write_traced(at, _next_rows, joined, value.indices, begin, row=row)
            parted.append(Rows(rows, value.indices))
        else:
            stop = (value.elements or 0) - left
            part = at.writer.part(f"{at.scope}/strided_slice", joined, -left, stop or None, at.placed)
            parted.append(at.writer.reshape(f"{at.scope}/Reshape", part, value.known_shape or (), at.placed))
            left = -stop
    return parted


def _next_rows(
    joined: tf.Tensor, indices: tf.Tensor, begin: tf.Tensor | int, row: Sequence[int]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return rows of which a server has the numbers, and where what comes after them begins."""
    size = tf.size(indices) * prod(row)
    rows = tf.reshape(tf.slice(joined, [begin], [size]), [-1, *row])
    return rows, begin + size
