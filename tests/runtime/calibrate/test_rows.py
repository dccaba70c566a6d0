"""Ops on rows of a table with other numbers of rows than those of the step."""

from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.step_records import record_of
from compiler.step.read.costs import cost_of
from compiler.time.profile import OpCost
from compiler.time.work import Signature
from tfdeploy.runtime.calibrate.rounds import (
    UPDATED,
    RowRatio,
    plain_config,
    ratios_by_rows,
    ratios_of,
    sweep,
    timed_in_turns,
    with_numbers_of_rows,
    with_other_rows,
)

TABLE, WIDTH, COUNT = 300, 8, 16


def distinct(count: int) -> Signature:
    """Return what the time of putting so many distinct rows into the table depends on."""
    return Signature(
        "ScatterNd", (f"int64[{count},1]", f"float32[{count},{WIDTH}]", "int64[2]"), f"to [{TABLE},{WIDTH}]"
    )


def like(count: int) -> Signature:
    """Return what the time of a sum of so many rows depends on."""
    inputs = (f"float32[{count},{WIDTH}]", f"int32[{count}]", "int64[]")
    return Signature("UnsortedSegmentSum", inputs, f"to [{TABLE},{WIDTH}]")


@pytest.fixture
def ops() -> dict[str, Any]:
    """Return a look-up, a sum of rows, and a sum of rows whose number is not known."""
    with tf.Graph().as_default():
        some = tf.compat.v1.placeholder(tf.float32, [COUNT, WIDTH])
        many = tf.compat.v1.placeholder(tf.float32, [None, WIDTH])
        each = tf.compat.v1.placeholder(tf.int32, [COUNT])
        count = tf.constant(TABLE, tf.int64)
        table = tf.compat.v1.placeholder(tf.float32, [TABLE, WIDTH])
        numbers = tf.compat.v1.placeholder(tf.int64, [COUNT, 3])
        return {
            "look-up": tf.raw_ops.GatherV2(params=table, indices=numbers, axis=tf.constant(0)).op,
            "sum": tf.raw_ops.UnsortedSegmentSum(data=some, segment_ids=each, num_segments=count).op,
            "unknown": tf.raw_ops.UnsortedSegmentSum(
                data=many, segment_ids=tf.compat.v1.placeholder(tf.int32, [None]), num_segments=count
            ).op,
        }


@pytest.mark.parametrize(
    ("name", "times", "ratios"),
    [
        ("look-up", (3, 5, 9, 17), (0.5, 2, 4)),
        ("sum", (3, 5, 9, 17, 4, 13), (0.5, 2, 4, 0.75, 3)),
        ("sum", (1, 5, 0.5, 17, 1, 13), (4, 3)),
        ("sum", (1, 1, 1, 1, 1, 1), ()),
    ],
)
def test_other_numbers_of_rows_are_compared(
    ops: dict[str, Any], name: str, times: tuple[float, ...], ratios: tuple[float, ...]
) -> None:
    """Times are beyond that of an empty step, which takes one second; what takes no longer is left out."""
    with tf.Graph().as_default():
        found = ratios_of(ops[name], with_numbers_of_rows(ops[name]), 1.0, times)
    assert [each.ratio for each in found] == pytest.approx(list(ratios))


def test_signatures_are_those_of_a_step_with_so_many_rows(ops: dict[str, Any]) -> None:
    """With the cost of such an op; sums of rows are also those of rows that are all different."""
    with tf.Graph().as_default():
        found = ratios_of(ops["look-up"], with_numbers_of_rows(ops["look-up"]), 1.0, (2.0, 3.0, 4.0, 5.0))
        sums = ratios_of(ops["sum"], with_numbers_of_rows(ops["sum"]), 1.0, range(2, 8))
    others = [COUNT // 2, 2 * COUNT, 4 * COUNT]
    assert [each.signature.inputs[1] for each in found] == [f"int64[{count},3]" for count in others]
    assert [each.signature for each in sums[:3]] == [like(count) for count in others]
    assert [each.signature for each in sums[3:]] == [distinct(COUNT), distinct(4 * COUNT)]
    assert {each.like for each in sums} == {like(COUNT)}
    _, flops, size = cost_of(record_of(ops["sum"]))
    assert [each.flops for each in sums[:3]] == [flops] * 3
    assert [each.bytes - size for each in sums[:3]] == [(count - COUNT) * (4 * WIDTH + 4) for count in others]


def test_ops_are_measured_as_they_are() -> None:
    """TensorFlow optimizes nothing, runs one op at a time, and uses as many threads for it as are wanted."""
    config = plain_config(3)
    assert config.graph_options.rewrite_options.disable_meta_optimizer
    assert config.graph_options.optimizer_options.opt_level == tf.compat.v1.OptimizerOptions.L0
    assert (config.inter_op_parallelism_threads, config.intra_op_parallelism_threads) == (1, 3)
    assert config.use_per_session_threads


def test_caches_are_filled_with_other_memory_before_each_run() -> None:
    """Each step follows on a sweep, which is not in its time; those that warm up do not count."""
    log: list[str] = []
    steps = [lambda: log.append("a"), lambda: log.append("b")]
    found = timed_in_turns(steps, 2, 3, lambda: log.append("swept"))
    assert log == ["swept", "a", "swept", "b"] * 5
    assert [len(each) for each in found] == [3, 3]


def test_more_rows_take_longer(ops: dict[str, Any]) -> None:
    """Whatever the machine: the times of all numbers of rows are measured, and none is negative."""
    assert all(each.ratio > 0 for each in ratios_by_rows([ops["sum"]], 0))
    assert ratios_by_rows([ops["unknown"]], 0) == ()


def test_what_the_step_has_counts() -> None:
    """Costs of other numbers of rows are added in proportion. What the step itself showed stays."""
    one, two, four = (like(count) for count in (1, 2, 4))
    measured = OpCost(one.type, one.inputs, one.detail, 100, 1000, 3, 1.0, 10.0, 12.0)
    own = OpCost(two.type, two.inputs, two.detail, 100, 1100, 1, 1.0, 18.0, 19.0)
    ratios = (RowRatio(one, two, 100, 1100, 1.5), RowRatio(one, four, 100, 1300, 3.0))
    added = with_other_rows((measured, own), ratios)
    assert added[:2] == (measured, own)
    (more,) = added[2:]
    assert (more.inputs, more.bytes, more.ops) == (four.inputs, 1300, 0)
    assert (more.alone, more.crowded) == pytest.approx((30, 36))
    assert with_other_rows((own,), ratios) == (own,)
    (_, other) = with_other_rows((measured,), [RowRatio(one, distinct(8), 0, 900, 0.5)])
    assert (other.type, other.inputs, other.detail) == (
        "ScatterNd",
        distinct(8).inputs,
        distinct(8).detail,
    )
    assert (other.alone, other.bytes, other.ops) == (5, 900, 0)


def test_a_sweep_reads_as_much_as_an_update() -> None:
    """The table, its slot and its gradient, up to a number of bytes."""

    def swept(dtype: Any, **most: int) -> int:
        with tf.Graph().as_default():
            op = sweep(tf.compat.v1.placeholder(dtype, [TABLE, WIDTH]), **most)
            return int(op.inputs[0].shape.num_elements())

    whole = UPDATED * TABLE * WIDTH
    assert [swept(each) for each in (tf.float32, tf.float16)] == [whole, whole // 2]
    assert swept(tf.float32, most=4000) == 1000
