"""Rows that are copies of the gradient of a sum are added up without the copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.gradients.row_sums import sum_rows

EXAMPLES, WORDS, WIDTH, SUMS = 3, 5, 4, 6
GENERATOR = np.random.default_rng(2)
ONCE = GENERATOR.normal(size=(EXAMPLES, WIDTH)).astype(np.float32)
PLACES = GENERATOR.integers(0, SUMS, EXAMPLES * WORDS).astype(np.int32)


def mean(rows: Any) -> Any:
    """Return the mean of the rows of each example."""
    return tf.reduce_mean(rows, 1)


def total(rows: Any) -> Any:
    """Return the sum of the rows of each example."""
    return tf.reduce_sum(rows, 1)


def over_examples(rows: Any) -> Any:
    """Return the sum over the examples, once for each of them."""
    return tf.reduce_sum(rows, 0)[:EXAMPLES]


def weighted(rows: Any) -> Any:
    """Return a sum in which every row has a factor of its own."""
    return tf.reduce_sum(rows * tf.range(1.0, WORDS + 1)[:, tf.newaxis], 1)


def halves(rows: Any) -> Any:
    """Return a sum in which every element of a row has a divisor of its own."""
    return tf.reduce_sum(rows / tf.range(1.0, WIDTH + 1), 1)


def sums(
    joined: Callable[[Any], Any], dtype: Any = tf.float32, device: str = "/cpu:0"
) -> tuple[Any, Any, set[str]]:
    """Return the sums of the gradients of rows, those of the copies, and the types of the ops for the first.

    Args:
        joined: What is differentiated, a function of rows of shape [examples, words, width].
        dtype: The type of the rows.
        device: The device of all ops.
    """
    with tf.Graph().as_default() as graph, tf.device(device):
        rows = tf.zeros([EXAMPLES, WORDS, WIDTH], dtype)
        (found,) = tf.gradients(joined(rows), rows, tf.constant(ONCE, dtype))
        copies = tf.reshape(found, [-1, WIDTH])
        before = len(graph.get_operations())
        made = sum_rows(copies, tf.constant(PLACES), tf.constant(SUMS))
        types = {each.type for each in graph.get_operations()[before:]}
        wanted = tf.math.unsorted_segment_sum(copies, tf.constant(PLACES), SUMS)
        with tf.compat.v1.Session() as session:
            return (*session.run((made, wanted)), types)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("joined", [mean, total])
def test_copies_are_not_made(joined: Callable[[Any], Any], dtype: Any) -> None:
    """The sums have the same bits as those of the copies."""
    made, wanted, types = sums(joined, dtype)
    assert np.array_equal(made, wanted)
    assert "SparseSegmentSumGrad" in types
    assert "UnsortedSegmentSum" not in types


@pytest.mark.parametrize(
    ("joined", "dtype", "device"),
    [
        (weighted, tf.float32, "/cpu:0"),
        (halves, tf.float32, "/cpu:0"),
        (over_examples, tf.float32, "/cpu:0"),
        (mean, tf.float16, "/cpu:0"),
        (mean, tf.float32, ""),
    ],
    ids=["own factors", "own divisors", "over examples", "half", "nowhere"],
)
def test_other_rows_are_added_up_as_they_are(joined: Callable[[Any], Any], dtype: Any, device: str) -> None:
    """If they are no copies of each other, or their sums might be rounded at other times."""
    made, wanted, types = sums(joined, dtype, device)
    assert np.array_equal(made, wanted)
    assert "UnsortedSegmentSum" in types
    assert "SparseSegmentSumGrad" not in types
