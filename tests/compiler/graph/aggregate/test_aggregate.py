"""Aggregations: every algorithm gives the sum, wherever it is wanted, and puts its ops where it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from dsl import ir
from tests.support import classifier

ALGORITHMS = [
    ir.Call("add_n"),
    ir.Call("tree"),
    ir.Call("hierarchical"),
    ir.Call("hierarchical", (3,)),
    ir.Call("ring"),
    ir.Call("shuffle"),
    ir.Call("shuffle", (), {"shards": 3}),
    ir.Call("collective"),
]
SPARSE = [each for each in ALGORITHMS if each.name != "collective"]


def _id(call: ir.Call) -> str:
    return "-".join([call.name, *map(str, call.args), *(f"{k}{v}" for k, v in call.kwargs.items())])


@cache
def plan_of(clones: int, devices: int) -> Any:
    """Return the plan of a classifier for some clones on some CPU devices."""
    from compiler.pipeline import make_plan

    return make_plan(classifier(clones=clones, devices__cpu=str(devices)))


class Bench:
    """A graph with a ledger over one CPU device per clone, in which values can be reduced."""

    def __init__(self, clones: int, devices: int | None = None) -> None:
        import tensorflow as tf

        from compiler.graph.ledger import Ledger
        from compiler.reasons import Placed, Reason

        self.plan = plan_of(clones, devices or clones)
        self.graph = tf.Graph()
        self.ledger = Ledger(self.plan)
        self.homes = [Placed(tower.device, Reason("test", "default")) for tower in self.plan.towers]

    def reduce(
        self, call: ir.Call, make: Any, arrays: Sequence[Any], *, everywhere: bool, number: int = 0
    ) -> list[Any]:
        """Return the sum at every destination; `make` turns an array into a value on its clone's device."""
        found: list[Any] = self.run(self.sums(call, make, arrays, everywhere=everywhere, number=number))
        return found

    def sums(
        self, call: ir.Call, make: Any, arrays: Sequence[Any], *, everywhere: bool, number: int = 0
    ) -> list[Any]:
        """Add the sum of a weight's gradients to the graph, and return it at every destination."""
        from compiler.graph.aggregate import Reduction, make_aggregation

        with self.graph.as_default():
            values = []
            for home, array in zip(self.homes, arrays, strict=True):
                with self.ledger.place(home, "gradient"):
                    values.append(make(array))
            places = self.homes if everywhere else self.homes[-1:]
            reduction = Reduction("weight", values, self.homes, places, self.ledger, number)
            return list(make_aggregation(call)(reduction))

    def run(self, tensors: Any) -> Any:
        """Return the values of tensors."""
        import tensorflow as tf

        from compiler.graph.session_options import session_config

        with tf.compat.v1.Session(graph=self.graph, config=session_config(self.plan)) as session:
            return session.run(tensors)


def dense(array: Any) -> Any:
    """Return a tensor."""
    import tensorflow as tf

    return tf.constant(array)


def rows(pair: Any) -> Any:
    """Return rows of an embedding."""
    import tensorflow as tf

    values, indices = pair
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices))


def test_rows_that_were_merged_are_found_again() -> None:
    """On the device on which they were merged, and only if both halves are of one merge."""
    import tensorflow as tf

    from compiler.graph.aggregate.parts import merge_rows, unmerged

    pair = np.ones((3, 2), np.float32), np.array([4, 1, 4], np.int32)
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        plain, other = rows(pair), rows(pair)
        merged, apart = merge_rows(plain), merge_rows(other)
        device = merged.values.device
        found = unmerged(merged, device)
        assert found is not None
        assert (found.values is plain.values, found.indices is plain.indices) == (True, True)
        assert unmerged(merged, "/device:CPU:1") is None
        assert unmerged(plain, device) is None
        assert unmerged(tf.IndexedSlices(merged.values, apart.indices), device) is None
        assert unmerged(tf.IndexedSlices(plain.values, merged.indices), device) is None


@pytest.mark.family(every=3)
@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("call", ALGORITHMS, ids=_id)
def test_every_algorithm_gives_the_sum(call: ir.Call, everywhere: bool) -> None:
    """1 to 8 clones, shapes smaller and larger than their number: the sum, the same bits everywhere."""
    generator = np.random.default_rng(1)
    for clones in (1, 2, 3, 4, 5, 8):
        bench = Bench(clones)
        gradients = [
            [generator.standard_normal(shape).astype(np.float32) for _ in range(clones)]
            for shape in ((3,), (5, 7), ())
        ]
        sums = [
            bench.sums(call, dense, arrays, everywhere=everywhere, number=clones + weight)
            for weight, arrays in enumerate(gradients)
        ]
        for arrays, found in zip(gradients, bench.run(sums), strict=True):
            assert len(found) == (clones if everywhere else 1)
            for each in found:
                np.testing.assert_array_equal(each, found[0])
                np.testing.assert_allclose(each, np.sum(arrays, axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.family(every=3)
@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("call", SPARSE, ids=_id)
def test_rows_stay_rows_and_are_summed_by_index(call: ir.Call, everywhere: bool) -> None:
    """Rows of an embedding, indices repeated within and between clones, come back once per index."""
    generator = np.random.default_rng(2)
    for clones in (1, 2, 3, 4, 8):
        pairs = [
            (generator.standard_normal((6, 4)).astype(np.float32), generator.integers(0, 9, 6))
            for _ in range(clones)
        ]
        expected = np.zeros((9, 4), np.float32)
        for values, indices in pairs:
            np.add.at(expected, indices, values)
        found = Bench(clones).reduce(call, rows, pairs, everywhere=everywhere, number=1)
        for each in found:
            assert len(set(each.indices)) == len(each.indices)
            np.testing.assert_array_equal(each.values, found[0].values)
            whole = np.zeros_like(expected)
            whole[each.indices] = each.values
            np.testing.assert_allclose(whole, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call", ALGORITHMS, ids=_id)
def test_clones_that_share_a_device_are_summed_too(call: ir.Call) -> None:
    """Five clones on two devices give the sum at each of them."""
    arrays = [np.full(4, 10.0**at, np.float32) for at in range(5)]
    found = Bench(5, devices=2).reduce(call, dense, arrays, everywhere=True)
    for each in found:
        np.testing.assert_array_equal(each, np.full(4, 11111.0, np.float32))


def _placed(call: ir.Call, clones: int, *, everywhere: bool, number: int = 0) -> Counter[tuple[str, str]]:
    """Return how many ops of each type an algorithm puts on each device."""
    bench = Bench(clones)
    arrays = [np.ones(8, np.float32)] * clones
    bench.reduce(call, dense, arrays, everywhere=everywhere, number=number)
    entries = [(op, bench.ledger.entries[op.name]) for op in bench.graph.get_operations()]
    made = [(op, entry) for op, entry in entries if entry.role == "aggregate"]
    assert all(op.name.startswith("aggregate/weight/") for op, _ in made)
    return Counter((entry.device.ref, op.type) for op, entry in made if op.type != "Const")


def test_add_n_sums_on_the_one_device() -> None:
    """All is summed by one op where the sum is wanted."""
    assert _placed(ir.Call("add_n"), 4, everywhere=False) == {("cpu[3]", "AddN"): 1}


def test_tree_sums_pairs_on_the_first_of_the_two() -> None:
    """Four clones: one pair on clone 0's device, one on clone 2's, the last on clone 0's; copies go back."""
    assert _placed(ir.Call("tree"), 4, everywhere=True) == {
        ("cpu[0]", "AddN"): 2,
        ("cpu[2]", "AddN"): 1,
        ("cpu[1]", "Identity"): 1,
        ("cpu[2]", "Identity"): 1,
        ("cpu[3]", "Identity"): 1,
    }


def test_hierarchical_rotates_its_main_devices() -> None:
    """The pairs' sums are made on their first devices for one variable and on their second for the next."""
    first = _placed(ir.Call("hierarchical"), 4, everywhere=True, number=0)
    second = _placed(ir.Call("hierarchical"), 4, everywhere=True, number=1)
    assert {key: n for key, n in first.items() if key[1] == "AddN"} == {
        ("cpu[0]", "AddN"): 2,
        ("cpu[2]", "AddN"): 1,
    }
    assert {key: n for key, n in second.items() if key[1] == "AddN"} == {
        ("cpu[1]", "AddN"): 1,
        ("cpu[3]", "AddN"): 2,
    }


def test_ring_gives_every_device_the_same_work() -> None:
    """Of 4 clones each adds 3 pieces and copies 3."""
    counts = _placed(ir.Call("ring"), 4, everywhere=True)
    for clone in range(4):
        assert counts["cpu[" + str(clone) + "]", "AddN"] == 3
        assert counts["cpu[" + str(clone) + "]", "Identity"] == 3


def test_shuffle_spreads_the_shards() -> None:
    """Three shards of the second variable are summed on devices 1, 2 and 3."""
    counts = _placed(ir.Call("shuffle", (3,)), 4, everywhere=False, number=1)
    assert {key: n for key, n in counts.items() if key[1] == "AddN"} == {
        ("cpu[1]", "AddN"): 1,
        ("cpu[2]", "AddN"): 1,
        ("cpu[3]", "AddN"): 1,
    }


def test_collective_puts_one_op_on_each_device() -> None:
    """Four clones on two devices: two sums there, then one CollectiveReduce on each."""
    bench = Bench(4, devices=2)
    bench.reduce(ir.Call("collective"), dense, [np.ones(3, np.float32)] * 4, everywhere=True)
    devices = [
        bench.ledger.entries[op.name].device.ref
        for op in bench.graph.get_operations()
        if op.type == "CollectiveReduce"
    ]
    assert sorted(devices) == ["cpu[0]", "cpu[1]"]
