"""Batches of different lengths are joined."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.feeding import _of_one_size


@pytest.mark.parametrize(("dtype", "filled"), [(tf.float32, 7.0), (tf.string, b"")])
def test_batches_are_filled_up_to_the_longest(dtype: tf.DType, filled: object) -> None:
    """What is behind is the padding, or empty texts; sizes that all examples share stay known."""
    with tf.Graph().as_default():
        given = [tf.compat.v1.placeholder(dtype, [None, None, 2]) for _ in range(2)]
        made = _of_one_size(given, 7.0)
        assert [each.shape.as_list() for each in made] == [[None, None, 2]] * 2
        number = b"x" if dtype == tf.string else 1.0
        batches = [np.full((1, 3, 2), number), np.full((2, 1, 2), number)]
        with tf.compat.v1.Session() as session:
            first, second = session.run(made, dict(zip(given, batches, strict=True)))
    np.testing.assert_array_equal(first, batches[0])
    assert second.shape == (2, 3, 2)
    assert (second[:, :1] == number).all()
    assert (second[:, 1:] == filled).all()
