"""Measures ops on rows of a table with other numbers of rows.

Rows that are all different are put into a table by `ScatterNd`, others are added up in it. Which of the two a
step has depends on the layout, so both are measured if a step has the second.

Some of the time of such an op is that of the rows, and some that of the table: the sum of the gradients of
rows first fills a whole table with zeros. The bytes of both do not tell how long each takes. With other
numbers of clones or of examples, there are other numbers of rows.

Between two runs of the op, a step goes through the table and its slots when it updates them, so the op finds
little of its memory in the caches. Here too, other memory of that size is read between two runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from compiler.time.profile import OpCost
from compiler.time.work import Signature
from tfdeploy.runtime.calibrate.rounds import plain_config, quartile, timed_in_turns

ON_ROWS: Mapping[str, tuple[int, ...]] = {"GatherV2": (1,), "UnsortedSegmentSum": (0, 1)}
"""The types of these ops, each with the inputs that have a row, or the number of one, in each place."""

FACTORS = (0.5, 1.0, 2.0, 4.0)
"""How many rows are measured, as multiples of those of the step."""

OF_DISTINCT = (1.0, 4.0)
"""How many rows are put into a table that are all different, as such multiples."""

WARM, STEPS = 10, 60
UPDATED, MOST_SWEPT = 3, 1 << 28
"""The tensors of the size of a table that an update goes through, and the most bytes that are read for them:
no cache is larger."""


@frozen
class RowRatio:
    """How long an op takes with another number of rows, or one that does the same with distinct rows.

    Attributes:
        like: What the time of the op of the step depends on.
        signature: What that of the other op depends on.
        flops: The floating point operations with these.
        bytes: The bytes that are moved with these.
        ratio: The time, as a multiple of that of the op of the step.
    """

    like: Signature
    signature: Signature
    flops: int
    bytes: int
    ratio: float


def ratios_by_rows(ops: Iterable[Any], inner_threads: int) -> tuple[RowRatio, ...]:
    """Measure ops on rows of a table, if their shapes are known, with other numbers of rows."""
    return tuple(each for op in ops if _is_known(op) for each in _measured(op, inner_threads))


def with_other_rows(costs: Iterable[OpCost], ratios: Iterable[RowRatio]) -> tuple[OpCost, ...]:
    """Return the costs of ops, and those of the same ops with other numbers of rows that none of them has."""
    found = {Signature(each.type, each.inputs, each.detail): each for each in costs}
    for each in ratios:
        like = found.get(each.like)
        if like is not None and each.signature not in found:
            found[each.signature] = evolve(
                like,
                type=each.signature.type,
                detail=each.signature.detail,
                inputs=each.signature.inputs,
                flops=each.flops,
                bytes=each.bytes,
                ops=0,
                alone=like.alone * each.ratio,
                crowded=like.crowded * each.ratio,
            )
    return tuple(found.values())


def _is_known(op: Any) -> bool:
    rows = [op.inputs[each] for each in ON_ROWS[op.type]]
    return (
        all(each.shape.is_fully_defined() for each in (*op.inputs, *op.outputs))
        and all(each.shape.rank and each.shape[0] > 1 for each in rows)
        and all(each.dtype.is_floating or each.dtype.is_integer for each in op.inputs)
    )


def _measured(op: Any, inner_threads: int) -> list[RowRatio]:
    import tensorflow as tf

    from compiler.graph.step_records import record_of
    from compiler.step.read.costs import cost_of

    graph = tf.Graph()
    with graph.as_default(), tf.device("/cpu:0"):
        nothing = tf.no_op()
        made = [_with_rows(tf, op, factor) for factor in FACTORS]
        if _fills_table(op):
            made += [_distinct(tf, op, factor) for factor in OF_DISTINCT]
        swept = _sweep(tf, _table(op))
        start = tf.compat.v1.global_variables_initializer()
    with tf.compat.v1.Session(graph=graph, config=plain_config(inner_threads)) as session:
        session.run(start)
        empty, *seconds = _times(
            [session.make_callable([each]) for each in (nothing, *made)],
            session.make_callable([swept]),
        )
    same = seconds[FACTORS.index(1.0)] - empty
    like, found = cost_of(record_of(op))[0], []
    for other, taken in zip(made, seconds, strict=True):
        signature, flops, size = cost_of(record_of(other))
        if signature != like and same > 0 and taken > empty:
            found.append(RowRatio(like, signature, flops, size, (taken - empty) / same))
    return found


def _table(op: Any) -> Any:
    """Return the tensor of an op that is a whole table."""
    return op.inputs[0] if op.type == "GatherV2" else op.outputs[0]


def _fills_table(op: Any) -> bool:
    """Whether an op adds up rows of a table, each of them in the place of its number."""
    return bool(op.type == "UnsortedSegmentSum" and op.inputs[1].shape.rank == 1)


def _distinct(tf: Any, op: Any, factor: float) -> Any:
    """Make the op that puts rows which are all different into the table of a sum of rows; return it."""
    import numpy as np

    table = op.outputs[0].shape.as_list()
    rows = min(table[0], max(1, int(op.inputs[1].shape[0] * factor)))
    places = np.random.default_rng(0).permutation(table[0])[:rows, np.newaxis]
    zeros = tf.zeros([rows, *table[1:]], op.inputs[0].dtype)
    value = tf.compat.v1.Variable(zeros, use_resource=True, trainable=False)
    return tf.raw_ops.ScatterNd(
        indices=tf.constant(places, tf.int64), updates=value.read_value(), shape=tf.constant(table, tf.int64)
    ).op


def _sweep(tf: Any, table: Any) -> Any:
    """Make an op that reads as much memory as the update of a table: the table, a slot, and the gradient."""
    size = min(MOST_SWEPT, UPDATED * table.shape.num_elements() * table.dtype.size) // tf.float32.size
    memory = tf.compat.v1.Variable(tf.zeros([size]), use_resource=True, trainable=False)
    return tf.reduce_max(memory.read_value()).op


def _with_rows(tf: Any, op: Any, factor: float) -> Any:
    """Make the same op with another number of rows, in the current graph; return it."""
    import numpy as np

    generator = np.random.default_rng(0)
    shapes = [each.shape.as_list() for each in op.inputs]
    for each in ON_ROWS[op.type]:
        shapes[each][0] = max(1, int(shapes[each][0] * factor))
    table = shapes[0][0] if op.type == "GatherV2" else op.outputs[0].shape[0]

    def tensor(at: int) -> Any:
        dtype, shape = op.inputs[at].dtype, shapes[at]
        if dtype.is_floating:
            value = tf.compat.v1.Variable(tf.zeros(shape, dtype), use_resource=True, trainable=False)
            return value.read_value()
        if at == 1:
            return tf.constant(generator.integers(0, table, shape), dtype)
        return tf.constant(0 if op.type == "GatherV2" else table, dtype, shape)

    inputs = [tensor(at) for at in range(len(shapes))]
    if op.type == "GatherV2":
        return tf.raw_ops.GatherV2(params=inputs[0], indices=inputs[1], axis=inputs[2]).op
    return tf.raw_ops.UnsortedSegmentSum(data=inputs[0], segment_ids=inputs[1], num_segments=inputs[2]).op


def _times(steps: Sequence[Any], between: Any) -> list[float]:
    """Return the seconds of steps that take turns: the lower quartile, in which others do least."""
    return [quartile(each) for each in timed_in_turns(steps, WARM, STEPS, between)]
