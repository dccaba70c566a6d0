"""Rows that are copies of the gradient of a sum are added up without the copies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.gradients.collect import Copied, sum_rows
from compiler.graph.tower.trim import copied_rows
from tests.graphs import graph_of
from tests.support import spec_of

POOLED = """
tfdeploy = 1

model "pooled" {{
  word = input(int32, [6])
  label = input(int32, [])
  logits = word -> Embedding(40, 4, name = "table") -> GlobalAveragePooling1D(name = "pool") -> Dense(5)
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}

devices {{
  cpu = 3
  gpu = 1
}}
clones {{ count = 1, batch = 4 }}
place {{
  clones -> {clones}
  variables("table/*") -> sharded(cpu[1..2])
  {rule}
}}
update {{ optimizer = SGD(0.1) }}
"""
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


def divided(rows: Any) -> Any:
    """Return a sum of rows that a weight divides."""
    return tf.reduce_sum(rows / tf.compat.v1.placeholder(rows.dtype, (), "weight"), 1)


def sums(joined: Callable[[Any], Any], dtype: Any) -> tuple[Any, Any, set[str]]:
    """Return the sums of the gradients of rows, those of the copies, and the types of the ops for the first.

    Args:
        joined: What is differentiated, a function of rows of shape [examples, words, width].
        dtype: The type of the rows.
    """
    with tf.Graph().as_default() as graph:
        rows = tf.zeros([EXAMPLES, WORDS, WIDTH], dtype)
        (found,) = tf.gradients(joined(rows), rows, tf.constant(ONCE, dtype))
        copies = tf.reshape(found, [-1, WIDTH])
        nodes = {each.name: each for each in graph.as_graph_def().node}
        before = len(graph.get_operations())
        made = sum_rows(copies, tf.constant(PLACES), tf.constant(SUMS), found_copied(graph, copies, nodes))
        types = {each.type for each in graph.get_operations()[before:]}
        wanted = tf.math.unsorted_segment_sum(copies, tf.constant(PLACES), SUMS)
        with tf.compat.v1.Session() as session:
            fed = {"weight:0": 3.0} if "weight" in nodes else {}
            return (*session.run((made, wanted), fed), types)


def found_copied(graph: tf.Graph, rows: Any, nodes: Mapping[str, Any]) -> Copied | None:
    """Return the rows of which others are copies, as they are found among the nodes of a graph."""

    def tensor(name: str) -> Any:
        return graph.get_tensor_by_name(name if ":" in name else f"{name}:0")

    found = copied_rows(rows.name, nodes, lambda name: tuple(tensor(name).shape))
    if found is None:
        return None
    assert tensor(found.rows).shape == found.shape
    assert graph.get_operation_by_name(found.made_by).inputs[0] is tensor(found.rows)
    return Copied(tensor(found.rows), found.times, None if found.divisor is None else tensor(found.divisor))


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("joined", [mean, total])
def test_copies_are_not_made(joined: Callable[[Any], Any], dtype: Any) -> None:
    """The sums have the same bits as those of the copies."""
    made, wanted, types = sums(joined, dtype)
    assert np.array_equal(made, wanted)
    assert "SparseSegmentSumGrad" in types
    assert "UnsortedSegmentSum" not in types


@pytest.mark.parametrize(
    ("joined", "dtype"),
    [
        (weighted, tf.float32),
        (halves, tf.float32),
        (divided, tf.float32),
        (over_examples, tf.float32),
        (mean, tf.float16),
    ],
    ids=["own factors", "own divisors", "a weight's", "over examples", "half"],
)
def test_other_rows_are_added_up_as_they_are(joined: Callable[[Any], Any], dtype: Any) -> None:
    """If they are no copies of each other, or their sums might be rounded at other times."""
    made, wanted, types = sums(joined, dtype)
    assert np.array_equal(made, wanted)
    assert "UnsortedSegmentSum" in types
    assert "SparseSegmentSumGrad" not in types


@pytest.mark.parametrize(
    ("clones", "rule", "overrides", "made"),
    [
        ("cpu[0]", "", {}, "SparseSegmentSumGrad"),
        ("gpu[0]", "", {}, "UnsortedSegmentSum"),
        ("cpu[0]", 'ops("pool/*") -> cpu[1]', {}, "UnsortedSegmentSum"),
        ("cpu[0]", "", {"update__accumulate": "2"}, "UnsortedSegmentSum"),
    ],
    ids=["here", "gpu", "elsewhere", "micro-batches"],
)
def test_copies_are_not_made_where_a_tower_would_make_them(
    clones: str, rule: str, overrides: dict[str, str], made: str
) -> None:
    """On a CPU that has all of them, in a tower whose gradients are of one batch."""
    spec = spec_of(POOLED.format(clones=clones, rule=rule), **overrides)
    ops = graph_of(spec, emulate=True).graph.get_operations()
    scope = "aggregate/table/embeddings/clone_0/"
    assert [op.name for op in ops if "SegmentSum" in op.type and op.name.startswith(scope)] == [scope + made]
