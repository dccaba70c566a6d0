"""Sums, pieces and copies of gradients, for tensors and for rows of an embedding (IndexedSlices)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tensorflow as tf

from compiler.shards import range_lengths

Gradient = Any


def sum_parts(values: Sequence[Gradient], name: str) -> Gradient:
    """Return the sum of tensors, or all rows, with rows of equal index summed.

    Args:
        values: The values, all dense of one shape or all IndexedSlices of one variable.
        name: The name of the op, or the name scope of the ops for rows.
    """
    if not isinstance(values[0], tf.IndexedSlices):
        return tf.add_n(list(values), name=name)
    with tf.name_scope(name):
        return merge_rows(join_rows(values))


def join_rows(values: Sequence[tf.IndexedSlices]) -> tf.IndexedSlices:
    """Return the rows of all values, concatenated."""
    if len(values) == 1:
        return values[0]
    return tf.IndexedSlices(
        tf.concat([each.values for each in values], 0, name="values"),
        tf.concat([each.indices for each in values], 0, name="indices"),
    )


def merge_rows(rows: tf.IndexedSlices) -> tf.IndexedSlices:
    """Sum the rows of equal index, so that the indices are distinct."""
    indices, positions = tf.unique(rows.indices)
    values = tf.math.unsorted_segment_sum(rows.values, positions, tf.shape(indices)[0])
    return tf.IndexedSlices(values, indices)


def unmerged(rows: tf.IndexedSlices, device: str) -> tf.IndexedSlices | None:
    """Return the rows of which `merge_rows` has made `rows`, or None if they are made otherwise.

    A sum that is wanted as a whole tensor can be made of them at once, in the same order. The ops by which
    they were merged do not run then, unless something else needs them.

    Args:
        rows: Rows of a gradient.
        device: The device on which the rows must have been merged, so that no more of them are sent.
    """
    total, found = rows.values.op, rows.indices.op
    if total.type != "UnsortedSegmentSum" or found.type != "Unique" or total.inputs[1].op is not found:
        return None
    return tf.IndexedSlices(total.inputs[0], found.inputs[0]) if total.device == device else None


def cut(value: Gradient, count: int) -> list[Gradient]:
    """Return at most `count` pieces: ranges of a flattened tensor, or rows by the remainder of their index.

    The gradients of all clones are cut in the same way, so that pieces of one number can be summed.

    Args:
        value: The gradient, a tensor of known shape or IndexedSlices.
        count: The number of pieces that are wanted.
    """
    if isinstance(value, tf.IndexedSlices):
        return _cut_rows(value, count)
    sizes = range_lengths(prod(value.shape.as_list()), count)
    flat = tf.reshape(value, [-1], name="flat")
    return list(tf.split(flat, sizes, name="cut")) if len(sizes) > 1 else [flat]


def _cut_rows(rows: tf.IndexedSlices, count: int) -> list[tf.IndexedSlices]:
    rests = tf.cast(
        tf.math.floormod(rows.indices, tf.cast(count, rows.indices.dtype)), tf.int32, name="rests"
    )
    values = tf.dynamic_partition(rows.values, rests, count, name="values")
    indices = tf.dynamic_partition(rows.indices, rests, count, name="indices")
    return [tf.IndexedSlices(*each) for each in zip(values, indices, strict=True)]


def glue(pieces: Sequence[Gradient], like: Gradient) -> Gradient:
    """Return the value of which `cut` made `pieces`; `like` is a value of the same shape.

    Args:
        pieces: The pieces, in the order of `cut`.
        like: A tensor or IndexedSlices of the kind and shape of the whole, from which nothing else is taken.
    """
    if isinstance(like, tf.IndexedSlices):
        return join_rows(pieces)
    flat = tf.concat(list(pieces), 0, name="joined") if len(pieces) > 1 else pieces[0]
    return tf.reshape(flat, like.shape, name="whole")
