"""Aggregations: every algorithm gives the sum, wherever it is wanted, and puts its ops where it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from attrs import evolve

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
        self,
        call: ir.Call,
        make: Any,
        arrays: Sequence[Any],
        *,
        everywhere: bool,
        number: int = 0,
        owner: int | None = None,
    ) -> list[Any]:
        """Add the sum of a weight's gradients to the graph, and return it at every destination.

        The only destination is the owner of a part, or else the last clone.
        """
        from compiler.graph.aggregate import Reduction, make_aggregation

        with self.graph.as_default():
            values = []
            for home, array in zip(self.homes, arrays, strict=True):
                with self.ledger.place(home, "gradient"):
                    values.append(make(array))
            places = self.homes if everywhere else [self.homes[-1 if owner is None else owner]]
            reduction = Reduction("weight", values, self.homes, places, self.ledger, number, owner)
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


@pytest.mark.family(every=6)
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


def _placed(
    call: ir.Call, clones: int, *, everywhere: bool, number: int = 0, owner: int | None = None
) -> Counter[tuple[str, str]]:
    """Return how many ops of each type an algorithm puts on each device."""
    bench = Bench(clones)
    arrays = [np.ones(8, np.float32)] * clones
    bench.sums(call, dense, arrays, everywhere=everywhere, number=number, owner=owner)
    entries = [(op, bench.ledger.entries[op.name]) for op in bench.graph.get_operations()]
    made = [(op, entry) for op, entry in entries if entry.role == "aggregate"]
    assert all(op.name.startswith("aggregate/weight/") for op, _ in made)
    return Counter((entry.device.ref, op.type) for op, entry in made if op.type != "Const")


EVERYWHERE: dict[str, Any] = {"everywhere": True}
LAST: dict[str, Any] = {"everywhere": False}


@pytest.mark.parametrize(
    ("call", "clones", "wanted", "sums", "copies"),
    [
        (ir.Call("add_n"), 4, LAST, "3", ""),
        (ir.Call("add_n"), 4, EVERYWHERE, "0", "123"),
        # each pair on the device of its first clone, the last pair where the only sum is wanted
        (ir.Call("tree"), 4, EVERYWHERE, "002", "123"),
        (ir.Call("tree"), 4, LAST, "023", ""),
        (ir.Call("tree"), 3, LAST, "02", ""),
        (ir.Call("tree"), 5, EVERYWHERE, "0002", "1234"),
        # groups of two, whose first devices add up one variable, and whose second ones the next
        (ir.Call("hierarchical"), 4, EVERYWHERE, "002", "123"),
        (ir.Call("hierarchical"), 4, {**EVERYWHERE, "number": 1}, "133", "012"),
        (ir.Call("hierarchical"), 4, {**EVERYWHERE, "number": 2}, "002", "123"),
        (ir.Call("hierarchical"), 4, {**LAST, "number": 2}, "023", ""),
        (ir.Call("hierarchical", (3,)), 4, {**EVERYWHERE, "number": 2}, "22", "013"),
        (ir.Call("hierarchical", (8,)), 4, {**EVERYWHERE, "number": 1}, "1", "023"),
        (ir.Call("hierarchical", (8,)), 4, LAST, "3", ""),
        # each clone adds as much as the others, and receives as much
        (ir.Call("ring"), 4, EVERYWHERE, "000111222333", "000111222333"),
        (ir.Call("ring"), 4, LAST, "000111222333", ""),
        (ir.Call("ring"), 4, {**LAST, "owner": 2}, "012", ""),  # from clone 3 on, around to the owner
        # one shard for each clone, or as many as the spec says, from the device of the variable's number on
        (ir.Call("shuffle"), 4, LAST, "0123", ""),
        (ir.Call("shuffle", (3,)), 4, {**LAST, "number": 1}, "123", ""),
        (ir.Call("shuffle", (), {"shards": 2}), 4, {**EVERYWHERE, "number": 3}, "03", ""),
        (ir.Call("shuffle"), 4, {**LAST, "owner": 1}, "1", ""),
        # within devices first, of which each clone has its own here
        (ir.Call("collective"), 4, LAST, "", "3"),
        (ir.Call("collective"), 4, EVERYWHERE, "", ""),
    ],
)
def test_sums_and_copies_are_made_on_these_devices(
    call: ir.Call, clones: int, wanted: dict[str, Any], sums: str, copies: str
) -> None:
    """The number of the device of each op that adds, and of each that copies a sum or a piece."""
    placed = _placed(call, clones, **wanted)

    def devices(kind: str) -> str:
        return "".join(each[4] * count for (each, made), count in sorted(placed.items()) if made == kind)

    assert (devices("AddN"), devices("Identity")) == (sums, copies)


@pytest.mark.parametrize(
    ("devices", "size", "groups"),
    [
        ("a0 a1 a2 a3", None, [[0, 1], [2, 3]]),  # of one host: pairs
        ("a0 a1 a2", None, [[0, 1], [2]]),
        ("a0 a1 b0 b1 b2", None, [[0, 1], [2, 3, 4]]),  # of several: each is a group
        ("a0 b0 a1", None, [[0, 2], [1]]),
        ("a0 a1 a2 a3", 3, [[0, 1, 2], [3]]),
        ("a0 a1 b0 b1", 1, [[0], [1], [2], [3]]),
        ("a0 a1 a2 b0", 2, [[0, 1], [2], [3]]),  # no group has devices of two hosts
        ("a0 a0 a1 a2", None, [[0, 1, 2], [3]]),  # devices are counted, and not clones
        ("a0", None, [[0]]),
    ],
)
def test_neighbours_are_grouped_by_their_hosts(
    devices: str, size: int | None, groups: list[list[int]]
) -> None:
    """By tasks if there are several, else in pairs, unless the spec says how many devices are a group."""
    from compiler.graph.aggregate.hierarchical import group_ranks
    from compiler.topology import Device

    places = [Device("gpu", int(each[1]), job=each[0]) for each in devices.split()]
    assert group_ranks(places, size) == groups


def test_only_what_needs_an_op_gets_one() -> None:
    """One value is its own sum unless rows may be equal; what is already on a device is not copied there."""
    import tensorflow as tf

    from compiler.graph.aggregate import Reduction

    bench = Bench(2)
    first, second = bench.homes
    with bench.graph.as_default():
        whole, some = tf.zeros(3), tf.IndexedSlices(tf.zeros((2, 1)), tf.zeros(2, tf.int32))
        plain = Reduction("w", [whole], [first], [first], bench.ledger)
        merged = Reduction("w", [some], [first], [first], bench.ledger)
        distinct = Reduction("w", [some], [first], [first], bench.ledger, distinct=True)
        assert plain.add(first, [whole], "sum") is whole
        assert distinct.add(first, [some], "sum") is some
        assert merged.add(first, [some], "sum").indices.op.type == "Unique"
        assert (plain.is_sparse, merged.is_sparse) == (False, True)
        assert plain.copy(first, whole, first, "copy") is whole
        copy = plain.copy(second, some, first, "copy")
        assert [each.op.name for each in (copy.values, copy.indices)] == [
            "aggregate/w/copy",
            "aggregate/w/copy_1",
        ]
        assert bench.ledger.entries["aggregate/w/copy"].device == second.device
    assert plain.one_destination == first
    assert Reduction("w", [whole], [first], [first, second], bench.ledger).one_destination is None


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


def test_collectives_of_a_graph_are_told_apart() -> None:
    """Each has a number of its own, and all that of the group of their devices; one device needs none."""
    bench = Bench(3, devices=2)
    arrays = [np.ones(3, np.float32)] * 3
    for number in range(2):
        bench.sums(ir.Call("collective"), dense, arrays, everywhere=True, number=number)
    made = [op for op in bench.graph.get_operations() if op.type == "CollectiveReduce"]
    assert [op.get_attr("instance_key") for op in made] == [1, 1, 2, 2]
    assert len({op.get_attr("group_key") for op in made}) == 1
    assert {op.get_attr("group_size") for op in made} == {2}
    alone = Bench(3, devices=1)
    alone.sums(ir.Call("collective"), dense, arrays, everywhere=False)
    assert "CollectiveReduce" not in {op.type for op in alone.graph.get_operations()}


def test_groups_of_collectives_are_known_by_their_devices() -> None:
    """In whatever order a graph has them; other devices are another group."""
    from compiler.graph.aggregate.collective import _group_key

    first, second, third = (place.device for place in Bench(3).homes)
    assert _group_key((first, second)) == _group_key((second, first))
    assert _group_key((first, second)) != _group_key((first, third))


def test_the_only_sum_of_a_collective_is_that_of_its_device() -> None:
    """It is not sent there, and waits for the others, so that every device has then ended its part."""
    bench = Bench(3)
    bench.sums(ir.Call("collective"), dense, [np.ones(3, np.float32)] * 3, everywhere=False)
    (total,) = (op for op in bench.graph.get_operations() if op.name == "aggregate/weight/sum")
    assert bench.ledger.entries[total.inputs[0].op.name].device.ref == "cpu[2]"
    waited = {bench.ledger.entries[op.name].device.ref for op in total.control_inputs}
    assert waited == {"cpu[0]", "cpu[1]"}


@pytest.mark.parametrize(("clones", "pack", "packed"), [(2, 100, True), (2, None, False), (1, 100, False)])
def test_gradients_are_packed_if_the_spec_says_so(clones: int, pack: int | None, *, packed: bool) -> None:
    """Of a single clone, there is nothing to send together."""
    import tensorflow as tf

    from compiler.graph.aggregate import Reduction, reduce_all

    bench = Bench(clones)
    update = evolve(bench.plan.update, pack=pack, aggregate=ir.Call("add_n"))
    with bench.graph.as_default():
        values = [tf.zeros(3) for _ in range(clones)]
        reductions = [
            Reduction(f"g{at}", values, bench.homes, bench.homes[-1:], bench.ledger, at) for at in range(2)
        ]
        assert [len(each) for each in reduce_all(reductions, update)] == [1, 1]
    assert any("bucket_0" in op.name for op in bench.graph.get_operations()) == packed


@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("call", SPARSE, ids=_id)
def test_sums_that_are_written_together_are_those_of_single_ones(call: ir.Call, *, everywhere: bool) -> None:
    """The ops have the same names, attributes, inputs, devices and order, also between rows and in a scope.

    If a name is there already, the new op has the next one.
    """
    import tensorflow as tf

    from compiler.graph.aggregate import Reduction, make_aggregation, reduce_all

    made = []
    for together in (True, False):
        bench = Bench(5)
        update = evolve(bench.plan.update, aggregate=call)
        with bench.graph.as_default(), tf.name_scope("outer"):
            tensors = [tf.ones((3,), tf.float16) for _ in bench.homes]
            places = bench.homes if everywhere else bench.homes[-1:]
            pair = np.ones((3, 2), np.float32), np.array([4, 1, 4], np.int32)
            values = [tensors, [rows(pair) for _ in bench.homes], tensors]
            reductions = [
                Reduction(name, each, bench.homes, places, bench.ledger, at)
                for at, (name, each) in enumerate(zip(("a", "b", "a"), values, strict=True))
            ]
            if together:
                sums = reduce_all(reductions, update)
            else:
                sums = [make_aggregation(call)(each) for each in reductions]
        flat = tf.nest.flatten(sums, expand_composites=True)
        nodes = bench.graph.as_graph_def(add_shapes=True).node
        made.append((list(nodes), bench.ledger.entries, [each.name for each in flat]))
    assert made[0] == made[1]
