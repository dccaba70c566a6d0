"""Sums of the rows of a gradient that belong to the same row of a table.

If a layer adds up the rows of an example, or takes their mean, each of these rows has the same gradient, and
TensorFlow makes a copy of it for every row. The sums are made of the one gradient instead, without the
copies. They are the same numbers, added in the same order.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from attrs import frozen


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
