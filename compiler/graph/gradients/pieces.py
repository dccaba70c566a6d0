"""Cut a tower's gradient of a weight in pieces where it was made, and send each piece to its own place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.row_sums import Copied, sum_rows
from compiler.graph.stamp.pieces import DealtRows
from compiler.graph.stamp.stamp import StampedTower
from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.pieces import cut_value
from compiler.step.record import Tensor, Value
from compiler.step.rows import merge_rows
from compiler.step.writer import Spot


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
