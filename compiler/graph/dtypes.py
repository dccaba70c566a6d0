"""Sizes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import tensorflow as tf


def size_in_bytes(shape: Sequence[int | None], dtype: str) -> int | None:
    """Return the bytes of a dense tensor.

    Args:
        shape: Its shape; None for an unknown dimension.
        dtype: The name of its type.

    Returns:
        The bytes, or None if a dimension is unknown or the type has no fixed size.
    """
    size: int = tf.as_dtype(dtype).size
    if size == 0 or any(each is None for each in shape):
        return None
    return prod(each for each in shape if each is not None) * size
