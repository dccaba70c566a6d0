"""Aggregations: every algorithm gives the sum, wherever it is wanted, and puts its ops where it says."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

from compiler.graph.fragments import recorded
from compiler.pipeline import make_plan
from compiler.step.sums import Reduction, make_aggregation, reduce_all
from compiler.step.sums.collective import _group_key
from compiler.step.sums.hierarchical import group_ranks
from compiler.step.values import join_rows, merge_rows
from compiler.topology import Device
from dsl import ir
from tests.support import Drafted, classifier

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
    return make_plan(classifier(clones=clones, devices__cpu=str(devices)))


class Bench(Drafted):
    """A graph over one CPU device per clone, in which values can be reduced."""

    def __init__(self, clones: int, devices: int | None = None) -> None:
        super().__init__(plan_of(clones, devices or clones))
        self.writer = self.ledger.writer("aggregate")

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
        with self:
            values = []
            for home, array in zip(self.homes, arrays, strict=True):
                with tf.device(self.plan.tensorflow_device(home.device)):
                    values.append(make(array))
            places = self.homes if everywhere else [self.homes[-1 if owner is None else owner]]
            reduction = self.reduction("weight", values, places, number, owner=owner)
            found: list[Any] = make_aggregation(call)(reduction)
            return found

    def reduction(
        self, name: str, values: Sequence[Any], places: Sequence[Any], number: int = 0, **more: Any
    ) -> Any:
        """Return what is to be summed; `values` are tensors or rows of the graph, one for each clone."""
        records = [recorded(each) for each in values]
        return Reduction(name, records, self.homes[: len(records)], places, self.writer, number, **more)


def dense(array: Any) -> Any:
    """Return a tensor."""
    return tf.constant(array)


def rows(pair: Any) -> Any:
    """Return rows of an embedding."""
    values, indices = pair
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices))


def test_rows_that_were_merged_are_found_again() -> None:
    """They are known of those that were merged, and of no others."""
    pair, bench = (np.ones((3, 2), np.float32), np.array([4, 1, 4], np.int32)), Bench(1)
    with bench:
        plain = recorded(rows(pair))
        merged = merge_rows(bench.writer, "merged", [plain], bench.homes[0])
        both = join_rows(bench.writer, "joined", [merged, plain], bench.homes[0])
        copied = bench.writer.copy("copied", merged, bench.homes[0])
    assert (merged.merged, both.merged, copied.merged) == (plain, None, None)


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
    made = [(op, bench.ledger.entries.get(op.name)) for op in bench.graph.get_operations()]
    made = [(op, entry) for op, entry in made if entry is not None]
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
    ("call", "elements", "pieces"),
    [
        (ir.Call("shuffle"), 6000, 12),
        (ir.Call("shuffle"), 2600, 10),
        (ir.Call("shuffle"), 96, 8),
        (ir.Call("shuffle"), 5, 5),
        (ir.Call("shuffle", (12,)), 96, 12),  # as the spec says
        (ir.Call("ring"), 6000, 12),
        (ir.Call("ring"), 96, 8),
    ],
)
def test_of_more_than_a_few_pieces_none_is_tiny(call: ir.Call, elements: int, pieces: int) -> None:
    """Twelve clones: a piece for each, but of more than eight none has less than a KiB."""
    bench, arrays = Bench(12), [np.full(elements, at, np.float32) for at in range(12)]
    (found,) = bench.reduce(call, dense, arrays, everywhere=False)
    np.testing.assert_array_equal(found, np.full(elements, 66, np.float32))
    cuts = [len(op.outputs) for op in bench.graph.get_operations() if op.type == "SplitV"]
    assert cuts == [pieces] * 12


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
    places = [Device("gpu", int(each[1]), job=each[0]) for each in devices.split()]
    assert group_ranks(places, size) == groups


def test_only_what_needs_an_op_gets_one() -> None:
    """One value is its own sum unless rows may be equal; what is already on a device is not copied there."""
    bench = Bench(2)
    first, second = bench.homes
    with bench:
        whole, some = tf.zeros(3), tf.IndexedSlices(tf.zeros((2, 1)), tf.zeros(2, tf.int32))
        plain, merged, distinct = (
            bench.reduction("w", [value], [first], distinct=each)
            for value, each in ((whole, False), (some, False), (some, True))
        )
        assert plain.add(first, plain.values, "sum") is plain.values[0]
        assert distinct.add(first, distinct.values, "sum") is distinct.values[0]
        total = merged.add(first, merged.values, "sum")
        assert (plain.is_sparse, merged.is_sparse) == (False, True)
        assert plain.copy(first, plain.values[0], first, "copy") is plain.values[0]
        copy = plain.copy(second, merged.values[0], first, "copy")
        assert [each.op for each in (copy.values, copy.indices)] == [
            "aggregate/w/copy",
            "aggregate/w/copy_1",
        ]
        assert bench.ledger.entries["aggregate/w/copy"].device == second.device
    assert bench.found(total).indices.op.type == "Unique"
    assert plain.one_destination == first
    assert bench.reduction("w", [whole], [first, second]).one_destination is None


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
    bench = Bench(clones)
    update = evolve(bench.plan.update, pack=pack, aggregate=ir.Call("add_n"))
    with bench:
        values = [tf.zeros(3) for _ in range(clones)]
        reductions = [bench.reduction(f"g{at}", values, bench.homes[-1:], at) for at in range(2)]
        assert [len(each) for each in reduce_all(reductions, update)] == [1, 1]
    assert any("bucket_0" in op.name for op in bench.graph.get_operations()) == packed


def test_names_that_are_there_already_get_a_number() -> None:
    """Whatever scope of TensorFlow the sums are written in."""
    bench = Bench(2)
    with bench, tf.name_scope("outer"):
        values = [tf.zeros(3) for _ in bench.homes]
        reductions = [bench.reduction("a", values, bench.homes[:1], at) for at in range(2)]
        found = [total for (total,) in reduce_all(reductions, bench.plan.update)]
    assert [each.op for each in found] == ["aggregate/a/add_n", "aggregate/a/add_n_1"]
