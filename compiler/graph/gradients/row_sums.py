"""Sums of the rows of a gradient that belong to the same row of a table.

If a layer adds up the rows of an example, or takes their mean, each of these rows has the same gradient, and
TensorFlow makes a copy of it for every row. The sums are made of the one gradient instead, without the
copies. They are the same numbers, added in the same order.
"""

from __future__ import annotations

import tensorflow as tf
from attrs import frozen

_TYPES = (tf.float32, tf.float64)
"""The types of which rows are added up without copies; sums of others are rounded at other times."""


@frozen
class _Copied:
    """Rows that are copies: each of `rows` comes several times in a row.

    Attributes:
        rows: The rows, of which each is there once.
        times: How often each of them comes.
    """

    rows: tf.Tensor
    times: int


def sum_rows(rows: tf.Tensor, places: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """Return the sums of rows, made on the current device.

    Args:
        rows: The rows, of shape [n, width].
        places: For each row the number of the sum that it is added to, of shape [n].
        count: The number of sums, a scalar.
    """
    copied = _copied(rows)
    if copied is None:
        return tf.math.unsorted_segment_sum(rows, places, count)
    once = copied.rows.shape[0]
    numbers = tf.broadcast_to(tf.range(once)[:, tf.newaxis], [once, copied.times])
    return tf.raw_ops.SparseSegmentSumGrad(
        grad=copied.rows, indices=places, segment_ids=tf.reshape(numbers, [-1]), output_dim0=count
    )


def _copied(rows: tf.Tensor) -> _Copied | None:
    """Return the rows of which others are copies, or None if it is not certain that they are copies.

    A mean divides the copies by their number; the rows are divided before they are copied instead.
    """
    made = rows.op
    device = tf.DeviceSpec.from_string(made.device)
    if rows.dtype not in _TYPES or device.device_type != "CPU" or made.type != "Reshape":
        return None
    divisor, copies = None, made.inputs[0].op
    if copies.type == "RealDiv" and copies.inputs[1].shape.rank == 0:
        divisor, copies = copies.inputs[1], copies.inputs[0].op
    if copies.type != "Tile" or copies.device != made.device:
        return None
    shape, times = copies.inputs[0].shape, tf.get_static_value(copies.inputs[1])
    if times is None or not shape.is_fully_defined() or shape[1:-1] != [1] * (len(times) - 2):
        return None
    if times[0] != 1 or times[-1] != 1 or rows.shape[-1] != shape[-1]:
        return None
    once = tf.reshape(copies.inputs[0], [shape[0], shape[-1]])
    return _Copied(once if divisor is None else once / divisor, int(times.prod()))
