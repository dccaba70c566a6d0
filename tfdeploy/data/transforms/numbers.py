"""Casts numbers to the dtype that is wanted, and refuses those that it cannot represent."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdeploy.data.options import BOUNDS, FLOATS


def checked_cast(tensor: Any, name: str, dtype: str) -> Any:
    """Cast `tensor` to `dtype`; a number that is not finite, or that does not fit, is an error.

    Args:
        tensor: The tensor, of any shape.
        name: Its name, for the message of the error.
        dtype: The name of the dtype.
    """
    if dtype == "string" or (tensor.dtype.name == dtype and dtype not in FLOATS):
        return tensor
    if dtype in FLOATS:
        return tf.debugging.check_numerics(tf.cast(tensor, dtype), f"`{name}` is not finite")
    low, high = BOUNDS[dtype]
    if tensor.dtype.is_floating:  # both bounds are exact in it, or infinite
        whole = tf.math.floor(tf.abs(tensor)) * tf.sign(tensor)
        above = whole < tf.cast(float(high + 1), tensor.dtype)
        fits = tf.reduce_all(tf.logical_and(whole >= tf.cast(float(low), tensor.dtype), above))
        with tf.control_dependencies([tf.debugging.Assert(fits, [f"`{name}` is outside {dtype}"])]):
            return tf.cast(tensor, dtype)
    least, greatest = max(low, tensor.dtype.min), min(high, tensor.dtype.max)
    fits = tf.logical_and(tensor >= least, tensor <= greatest)
    if tensor.shape.rank != 0:  # for one number this would be two ops, as much as the cast itself
        fits = tf.reduce_all(fits)
    with tf.control_dependencies([tf.debugging.Assert(fits, [f"`{name}` is outside {dtype}"])]):
        return tf.cast(tensor, dtype)
