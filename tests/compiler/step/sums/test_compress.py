"""Gradients that travel together, and sums with casts between hosts."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from compiler.step.record import ITEM_BYTES, Op, Rows, Tensor, Value
from compiler.step.sums import Reduction, make_aggregation, sums_of
from compiler.step.sums.pack import fill_buckets, reduce_packed
from compiler.step.writer import StepWriter
from dsl import ir
from tests.compiler.step.sums.test_sums import SPARSE, Bench, _id, dense, rows
from tests.support import Drafted, classifier


@cache
def plan_of(tasks: int) -> Any:
    """Return the plan of two clones on each task of a cluster, in one graph."""
    spec = classifier(clones=2 * tasks, update__replication="in_graph")
    return make_plan(evolve(spec, devices=ir.Devices(jobs=(ir.Job("worker", tasks, cpu=2),))), emulate=True)


class Cluster(Bench):
    """A graph over several tasks, in which values can be reduced with casts."""

    def __init__(self, tasks: int) -> None:
        Drafted.__init__(self, plan_of(tasks))
        self.writer = self.ledger.writer("aggregate")

    def compressed(self, call: ir.Call, dtype: str, make: Any, arrays: Sequence[Any], places: Any) -> Any:
        """Return the sum of the clones' values at each of some places, with what is sent in a type."""
        with self:
            values = []
            for home, array in zip(self.homes, arrays, strict=True):
                with tf.device(self.plan.tensorflow_device(home.device)):
                    values.append(make(array))
            update = evolve(self.plan.update, aggregate=call, compress=ir.Call(dtype))
            found = sums_of(update)(self.reduction("weight", values, places))
        return self.run(found)

    def sent(self) -> set[str]:
        """Return the types of what ops take from ops of other hosts."""
        ops = {each.name: each for each in self.ledger.written if isinstance(each, Op)}
        homes = {name: op.device.host for name, op in ops.items()}
        return {
            each.dtype
            for op in ops.values()
            for each in op.inputs
            if each.op in homes and homes[each.op] != op.device.host
        }


@pytest.mark.family(every=3)
@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("call", SPARSE, ids=_id)
def test_all_hosts_get_the_same_sum_of_what_was_sent(call: ir.Call, everywhere: bool) -> None:
    """Numbers that the type holds give the sum itself, others one that is close; all clones the same bits."""
    generator = np.random.default_rng(1)
    for tasks in (2, 3):
        for dtype, close in (("bfloat16", 0.02), ("float16", 0.002)):
            bench = Cluster(tasks)
            whole = [generator.integers(-9, 9, (5, 7)).astype(np.float32) for _ in bench.homes]
            places = bench.homes if everywhere else bench.homes[-1:]
            for each in bench.compressed(call, dtype, dense, whole, places):
                np.testing.assert_array_equal(each, np.sum(whole, axis=0))
            assert bench.sent() == {dtype}
            bench = Cluster(tasks)
            parts = [generator.standard_normal((5, 7)).astype(np.float32) for _ in bench.homes]
            found = bench.compressed(call, dtype, dense, parts, places)
            for each in found:
                np.testing.assert_array_equal(each, found[0])
                np.testing.assert_allclose(each, np.sum(parts, axis=0), atol=close * 2 * tasks)
            assert not everywhere or not np.array_equal(found[0], np.sum(parts, axis=0))


def test_sums_are_made_of_more_bits_than_are_sent() -> None:
    """What the summing host has itself is not rounded; what it is sent is, and the sum that it sends."""
    kept = tf.bfloat16.as_numpy_dtype
    bench = Cluster(2)
    parts = [np.array([each], np.float32) for each in (1.001, 2.003, 3.007, 1e-3)]
    found = bench.compressed(ir.Call("add_n"), "bfloat16", dense, parts, bench.homes)
    received = [each.astype(kept).astype(np.float32) for each in parts[2:]]
    total = parts[0] + parts[1] + received[0] + received[1]
    for each in found:
        np.testing.assert_array_equal(each, total.astype(kept).astype(np.float32))
    (alone,) = Cluster(2).compressed(ir.Call("add_n"), "bfloat16", dense, parts, bench.homes[:1])
    np.testing.assert_array_equal(alone, total)


@pytest.mark.family(every=3)
@pytest.mark.parametrize("call", SPARSE, ids=_id)
def test_the_numbers_of_rows_are_sent_as_they_are(call: ir.Call) -> None:
    """Their elements are cast, their numbers are not, and all clones get the same rows."""
    generator = np.random.default_rng(2)
    bench = Cluster(2)
    pairs = [
        (generator.integers(-9, 9, (6, 4)).astype(np.float32), generator.integers(0, 900, 6))
        for _ in bench.homes
    ]
    expected = np.zeros((900, 4), np.float32)
    for values, indices in pairs:
        np.add.at(expected, indices, values)
    for each in bench.compressed(call, "bfloat16", rows, pairs, bench.homes):
        whole = np.zeros_like(expected)
        whole[each.indices] = each.values
        np.testing.assert_array_equal(whole, expected)
    assert bench.sent() == {"bfloat16", "int64"}


SIZE = 100  # bytes of a bucket


def buckets(gradients: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """Return what goes together of gradients given as bytes, type, and the device that wants the sum.

    Type and device may be left out; with the type `rows` it is one of some rows of a table.
    """
    plan = make_plan(classifier(clones=2))
    places = [Placed(tower.device, Reason("test", "default")) for tower in plan.towers]
    reductions = []
    for number, (size, *more) in enumerate(gradients):
        kind, device = (*more, *("float32", 0)[len(more) :])
        dtype = "float32" if kind == "rows" else kind
        value: Value = Tensor(f"made_{number}", dtype, (size // ITEM_BYTES[dtype],))
        if kind == "rows":
            value = Rows(value, Tensor("numbers", "int32", value.shape))
        reductions.append(
            Reduction(f"g{number}", [value] * 2, places, [places[device]], StepWriter("aggregate"), number)
        )
    return fill_buckets(reductions, SIZE)


@pytest.mark.parametrize(
    ("gradients", "expected"),
    [
        ([(40,), (40,), (40,)], [[0, 1], [2]]),
        ([(40,), (60,), (40,)], [[0, 1], [2]]),  # as full as can be
        ([(40,), (64,), (36,)], [[0], [1, 2]]),  # one that does not fit begins the next
        ([(96,), (4,), (4,)], [[0, 1], [2]]),
        ([(40,), (100,), (40,)], [[1], [0, 2]]),  # as large as a bucket: alone, and it holds nothing up
        ([(40,), (20, "rows"), (40,)], [[1], [0, 2]]),
        ([(40,), (40, "float64"), (40,), (40, "float64")], [[0, 2], [1, 3]]),
        ([(40,), (40, "float32", 1), (40,)], [[1], [0, 2]]),
        ([(40,), (40, "float64"), (64,), (40, "float64"), (4,)], [[0], [1, 3], [2, 4]]),
        ([], []),
    ],
)
def test_buckets_are_filled_in_order(gradients: list[tuple[Any, ...]], expected: list[list[int]]) -> None:
    """Only what has one type and the same places goes together; a bucket leaves with its last gradient."""
    assert buckets(gradients) == expected


@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("algorithm", ["add_n", "ring"])
def test_sums_come_back_one_by_one(algorithm: str, *, everywhere: bool) -> None:
    """Each with its shape and place, in the order of the gradients, whatever travelled together."""
    bench, generator = Bench(3), np.random.default_rng(1)
    shapes = [(3,), (40, 2), (2, 2), (), (5, 1)]  # the second is as large as a bucket
    arrays = [[generator.standard_normal(shape).astype(np.float32) for _ in range(3)] for shape in shapes]
    places = bench.homes if everywhere else bench.homes[-1:]
    with bench:
        reductions = [
            bench.reduction(f"g{at}", [tf.constant(each) for each in own], places, at)
            for at, own in enumerate(arrays)
        ]
        sums = [*reduce_packed(reductions, make_aggregation(ir.Call(algorithm)), SIZE)]
    for found, own in zip(bench.run(sums), arrays, strict=True):
        assert len(found) == len(places)
        for each in found:
            np.testing.assert_allclose(each, np.sum(own, axis=0), rtol=1e-6, atol=1e-6)
    entries = bench.ledger.entries
    assert {entries["aggregate/bucket_1/" + name].device.ref for name in ("pack_0/packed",)} == {"cpu[0]"}
    for at, place in enumerate(places):
        assert entries[f"aggregate/bucket_1/unpack_{at}/Reshape"].device == place.device
