"""Cut a tower's gradient of a weight in pieces where it was made, and send each piece to its own place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from compiler.graph.aggregate.base import Gradient
from compiler.graph.aggregate.parts import merge_rows
from compiler.graph.assembly import Assembly
from compiler.graph.stamp.stamp import StampedTower
from compiler.reasons import Placed
from compiler.shards import Shard


def cut_gradients(
    assembly: Assembly, part: int, weight: str, homes: Mapping[int, Placed]
) -> dict[int, list[Gradient]]:
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
) -> list[Gradient]:
    value = tower.gradient(part, weight)
    if not shards:
        return [value]
    place = assembly.ledger.place(home, "aggregate")
    with place, tf.name_scope(f"{scope}/clone_{tower.tower.index}/"):
        return cut_gradient(value, shards)


def cut_gradient(value: Gradient, shards: Sequence[Shard]) -> list[Gradient]:
    """Return the pieces of a gradient, made on the current device.

    Args:
        value: A tensor, or rows. The indices of pieces of rows are those within the piece, and distinct.
        shards: The pieces of the weight.
    """
    axis, sizes = shards[0].axis, [each.size for each in shards]
    if not isinstance(value, tf.IndexedSlices):
        if shards[0].flat:
            value = tf.reshape(value, shards[0].cut_shape, name="line")
        return list(tf.split(value, sizes, axis, name="cut"))
    rows = merge_rows(value)
    if axis:
        parts = tf.split(rows.values, sizes, axis, name="cut")
        return [tf.IndexedSlices(each, rows.indices) for each in parts]
    dtype = rows.indices.dtype
    begins = tf.constant([each.start for each in shards], dtype)
    owner = tf.searchsorted(begins[1:], rows.indices, side="right", name="owner")
    local = rows.indices - tf.gather(begins, owner)
    values = tf.dynamic_partition(rows.values, owner, len(shards), name="values")
    indices = tf.dynamic_partition(local, owner, len(shards), name="indices")
    return [tf.IndexedSlices(*each) for each in zip(values, indices, strict=True)]
