"""Sums with casts between hosts: what is added up, what every host gets, and what is sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from compiler.step.record import Op
from compiler.step.sums import sums_of
from dsl import ir
from tests.compiler.step.sums.test_sums import SPARSE, Bench, _id, dense, rows
from tests.support import Drafted, classifier


@cache
def plan_of(tasks: int) -> Any:
    """Return the plan of two clones on each task of a cluster, in one graph."""
    from compiler.pipeline import make_plan

    spec = classifier(clones=2 * tasks, update__replication="in_graph")
    return make_plan(evolve(spec, devices=ir.Devices(jobs=(ir.Job("worker", tasks, cpu=2),))), emulate=True)


class Cluster(Bench):
    """A graph over several tasks, in which values can be reduced with casts."""

    def __init__(self, tasks: int) -> None:
        Drafted.__init__(self, plan_of(tasks))
        self.writer = self.ledger.writer("aggregate")

    def compressed(self, call: ir.Call, dtype: str, make: Any, arrays: Sequence[Any], places: Any) -> Any:
        """Return the sum of the clones' values at each of some places, with what is sent in a type."""
        import tensorflow as tf

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
    import tensorflow as tf

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
