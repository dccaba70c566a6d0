"""Small weights, which come with rows of a table."""

from __future__ import annotations

import pytest
import tensorflow as tf

from compiler.graph.stamp.riders import Rider
from compiler.topology import Device


@pytest.mark.parametrize(
    ("shape", "dtype", "small"),
    [
        ((), tf.float32, True),
        ((128, 128), tf.float32, True),
        ((16385,), tf.float32, False),
        ((256, 128), tf.float16, True),
        ((3, 10923), tf.float16, False),
    ],
)
def test_a_weight_of_64_kib_is_small(shape: tuple[int, ...], dtype: tf.DType, *, small: bool) -> None:
    """A larger one is sent by itself, whatever its shape and its type are."""
    rider = Rider("w", "w/read", "w/sent", shape, dtype.as_datatype_enum, Device("cpu", 0))
    assert rider.is_small == small
