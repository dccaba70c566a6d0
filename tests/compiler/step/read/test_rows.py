"""The sizes of tensors whose rows are counted only while a step runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import tensorflow as tf

from compiler.graph.step_records import record_of
from compiler.step.read.rows import RowCounts
from compiler.step.record import Op, Shape

ROWS, WIDTH, PARTS = 10, 4, 3
PART = 4
"""A third of the rows, rounded up."""


@pytest.fixture(scope="module")
def ops() -> Mapping[str, Op]:
    """Return a graph that divides rows in three, joins two parts, and adds up rows of equal number."""
    with tf.Graph().as_default() as graph:
        rows = tf.compat.v1.placeholder(tf.float32, [ROWS, WIDTH], name="rows")
        numbers = tf.compat.v1.placeholder(tf.int32, [ROWS], name="numbers")
        where = tf.compat.v1.placeholder(tf.int32, [ROWS], name="where")
        parts = tf.dynamic_partition(rows, where, PARTS, name="parts")
        places = tf.dynamic_partition(numbers, where, PARTS, name="places")
        joined = tf.concat(parts[:2], 0, name="joined")
        found, at = tf.unique(tf.concat(places[:2], 0), name="unique")
        total = tf.math.unsorted_segment_sum(joined, at, tf.shape(found)[0], name="total")
        index = tf.cast(found, tf.int64, name="cast")[:, tf.newaxis]
        tf.scatter_nd(
            index, tf.identity(total, name="same"), tf.constant([99, WIDTH], tf.int64), name="table"
        )
        tf.concat([parts[0], parts[0]], 1, name="wide")
        tf.split(total, [tf.size(places[0]), tf.size(places[1])], name="cut")
        tf.split(total, [1, WIDTH - 1], 1, name="columns")
        some = tf.compat.v1.placeholder(tf.int32, [None], name="some")
        tf.unique(some, name="unknown")
        tf.identity(found[1:], name="fewer")
        tf.raw_ops.SparseSegmentSumGrad(
            grad=rows, indices=at, segment_ids=at, output_dim0=tf.shape(found)[0], name="copied"
        )
    return {each.name: record_of(each) for each in graph.get_operations()}


def shapes(ops: Mapping[str, Op], name: str) -> tuple[list[Shape | None], list[Shape | None]]:
    """Return the shapes of the inputs and of the outputs of an op as the forecast takes them."""
    op = RowCounts(ops).sized(ops[name])
    return [each.shape for each in op.inputs], [each.shape for each in op.outputs]


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("parts", [(PART, WIDTH)] * PARTS),
        ("places", [(PART,)] * PARTS),
        ("joined", [(2 * PART, WIDTH)]),
        ("unique", [(2 * PART,), (2 * PART,)]),
        ("total", [(2 * PART, WIDTH)]),
        ("copied", [(2 * PART, WIDTH)]),
        ("cast", [(2 * PART,)]),
        ("strided_slice_1", [(2 * PART, 1)]),
        ("same", [(2 * PART, WIDTH)]),
        ("wide", [(None, 2 * WIDTH)]),
        ("cut", [(PART, WIDTH)] * 2),
        ("columns", [(2 * PART, 1), (2 * PART, WIDTH - 1)]),
        ("unknown", [(None,), (None,)]),
        ("fewer", [(None,)]),
    ],
)
def test_rows_are_at_most_as_many_as_before(
    ops: Mapping[str, Op], name: str, outputs: list[Shape | None]
) -> None:
    """Parts are equally large, sums of rows as many as the rows; what is not known of the input stays so."""
    assert shapes(ops, name)[1] == outputs


def test_an_op_has_the_sizes_of_what_it_reads(ops: Mapping[str, Op]) -> None:
    """Also one whose own result is known; its inputs still tell their ops and types."""
    assert shapes(ops, "table") == ([(2 * PART, 1), (2 * PART, WIDTH), (2,)], [(99, WIDTH)])
    sized = RowCounts(ops).sized(ops["table"])
    assert [(each.name, each.dtype) for each in sized.inputs] == [
        (each.name, each.dtype) for each in ops["table"].inputs
    ]


def test_an_op_without_counted_rows_is_as_it_is(ops: Mapping[str, Op]) -> None:
    """Most ops of a graph are."""
    assert RowCounts(ops).sized(ops["rows"]) is ops["rows"]
