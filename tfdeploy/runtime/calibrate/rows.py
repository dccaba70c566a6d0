"""Measures ops on rows of a table with other numbers of rows.

Some of the time of such an op is that of the rows, and some that of the table: the sum of the gradients of
rows first fills a whole table with zeros. The bytes of both do not tell how long each takes. With other
numbers of clones or of examples, there are other numbers of rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from compiler.time.profile import OpCost
from compiler.time.work import Signature
from tfdeploy.runtime.calibrate.stretches import quartile

ON_ROWS: Mapping[str, tuple[int, ...]] = {"GatherV2": (1,), "UnsortedSegmentSum": (0, 1)}
"""The types of these ops, each with the inputs that have a row, or the number of one, in each place."""

FACTORS = (0.5, 1.0, 2.0, 4.0)
"""How many rows are measured, as multiples of those of the step."""

WARM, STEPS = 10, 60


@frozen
class RowRatio:
    """How long an op takes with another number of rows.

    Attributes:
        like: What the time of the op of the step depends on.
        signature: The same with the other number of rows.
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
    """Measure ops on rows of a table with other numbers of rows.

    Args:
        ops: Ops of TensorFlow, of the types in `ON_ROWS`. Those whose shapes are not known are left out.
        inner_threads: How many threads work on an op of this process.
    """
    return tuple(each for op in ops if _is_known(op) for each in _measured(op, inner_threads))


def with_other_rows(costs: Iterable[OpCost], ratios: Iterable[RowRatio]) -> tuple[OpCost, ...]:
    """Return the costs of ops, and those of the same ops with other numbers of rows that none of them has.

    Args:
        costs: The costs of the ops of the step.
        ratios: How long ops take with other numbers of rows.
    """
    found = {Signature(each.type, each.inputs, each.detail): each for each in costs}
    for each in ratios:
        like = found.get(each.like)
        if like is not None and each.signature not in found:
            found[each.signature] = evolve(
                like,
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

    from compiler.graph.inspect.time.timed_step import work_of_op

    graph = tf.Graph()
    with graph.as_default(), tf.device("/cpu:0"):
        nothing = tf.no_op()
        made = {factor: _with_rows(tf, op, factor) for factor in FACTORS}
        start = tf.compat.v1.global_variables_initializer()
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    config.intra_op_parallelism_threads = inner_threads
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        session.run(start)
        empty, *seconds = _times([session.make_callable([each]) for each in (nothing, *made.values())])
    times = dict(zip(made, seconds, strict=True))
    same = times[1.0] - empty
    like, found = work_of_op(op, op)[0], []
    for factor, other in made.items():
        signature, flops, size = work_of_op(other, other)
        if signature != like and same > 0 and times[factor] > empty:
            found.append(RowRatio(like, signature, flops, size, (times[factor] - empty) / same))
    return found


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


def _times(steps: Sequence[Any]) -> list[float]:
    """Return the seconds of steps that take turns: the lower quartile, in which others do least."""
    found: list[list[float]] = [[] for _ in steps]
    for made in range(WARM + STEPS):
        for step, seconds in zip(steps, found, strict=True):
            began = time.perf_counter()
            step()
            if made >= WARM:
                seconds.append(time.perf_counter() - began)
    return [quartile(each) for each in found]
