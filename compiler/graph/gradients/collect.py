"""Sum the gradients of a step over the towers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import frozen

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.summed import SummedGradient, values_of, with_values
from compiler.graph.gradients.weighting import SCOPE, inverse_weights
from compiler.graph.stamp.pieces import DealtRows
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.placement.rules import following
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.pieces import cut_value
from compiler.step.record import Tensor, Value
from compiler.step.rows import merge_rows
from compiler.step.sums import Reduction, reduce_all
from compiler.step.writer import Spot, StepWriter


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
        assembly: The graph under construction.
        part: The number of the part of the loss.
        weight: The weight; its pieces are its variables, or the parts that its clones update. If it is whole,
            its gradient is its only piece.
        homes: The place where each tower has made the gradient.
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
        parts = cut_value(writer, scope, value, shards, home)
        return [*parts]
    if dealt is None:
        value = merge_rows(writer, scope, value, home)
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
        copied: The rows of which these are copies, if that is known.
        shards: The pieces of the weight.
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
    """Rows of which others are copies: each of `rows` comes several times in a row.

    Attributes:
        rows: The rows, of which each is there once, with axes of size one for the copies.
        times: How often each of them comes.
        divisor: The number by which the copies are divided, or None.
    """

    rows: Any
    times: int
    divisor: Any = None


def sum_rows(rows: tf.Tensor, places: tf.Tensor, count: tf.Tensor, copied: Copied | None = None) -> tf.Tensor:
    """Return the sums of rows, made on the current device.

    Args:
        rows: The rows, of shape [n, width].
        places: For each row the number of the sum that it is added to, of shape [n].
        count: The number of sums, a scalar.
        copied: The rows of which these are copies, if they are.
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
