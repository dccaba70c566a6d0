"""What records say of ops is what TensorFlow says of them in its graph."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

from compiler.graph.fragments import recorded
from compiler.graph.stamp.pieces import PieceWriter
from compiler.graph.stamp.sources import CutSource, WeightSource
from compiler.graph.step_records import record_of
from compiler.graph.update.apply import take_turn
from compiler.graph.update.statistics import change, mean
from compiler.shards import cut
from compiler.step.mailboxes import Box
from compiler.step.read.costs import cost_of
from compiler.step.record import Tensor
from compiler.step.sums import reduce_all
from compiler.step.sums.add_n import add_n
from compiler.step.sums.between import Between
from compiler.step.sums.compress import narrowed
from compiler.step.types import TYPES
from compiler.step.values import cut_value, take_piece
from compiler.step.writer import Names, Spot, StepWriter
from dsl import ir
from tests.compiler.step.sums.test_sums import Bench, dense

CALLS = {
    "ring": ir.Call("ring"),
    "shuffle": ir.Call("shuffle"),
    "tree": ir.Call("tree"),
    "collective": ir.Call("collective"),
    "packed": ir.Call("add_n"),
}


def written(bench: Bench, name: str) -> None:
    """Write sums of tensors and rows, the pieces of one, a mean, a look-up of rows, and a loop."""
    update = evolve(bench.plan.update, aggregate=CALLS[name], pack=200 if name == "packed" else None)
    tensors = [[dense(np.ones(shape, np.float16)) for _ in bench.homes] for shape in ((3, 2), (5,), ())]
    table = [_rows() for _ in bench.homes] if name in {"ring", "tree"} else tensors[0]
    reductions = [
        bench.reduction(f"w{at}", each, bench.homes, at) for at, each in enumerate((*tensors, table))
    ]
    reduce_all(reductions, update)
    writer, place = bench.writer, bench.homes[1]
    value = recorded(tensors[0][0])
    for axis in (0, 1):
        shards = cut("w", (3, 2), 0, 2, axis=axis)
        cut_value(writer, f"cut_{axis}", value, shards, place)
    mean(writer, "mean", {0: value, 1: value}, {0: 0.25, 1: 0.75}, place)
    change(writer, "change", {0: value, 1: value}, {0: value, 1: value}, place)
    handle = writer.variable("held", "float16", (3, 2), "held", place)
    read = writer.read("read", handle, place)
    writer.after("waited", ["read"], place)
    writer.write("AddV2", "plus", (value, read), place)
    weight = recorded(tf.constant(0.5))
    for box, put in (
        (Box("small", "float16", (3, 2), place, writer), value),
        (Box("large", "float16", (25, 40), place, writer), recorded(tf.zeros((25, 40), tf.float16))),
        (Box("rows", "float32", (9, 2), place, writer, sparse=True), recorded(_rows(tf.int32))),
    ):
        box.put(0, put)
        box.clear(2)
        box.total(2)
        box.total(2, [weight, weight])
        box.take(1)
    looked_up(bench)
    counted(bench)
    updated(bench, value, handle)
    between(bench, value)


def between(bench: Bench, value: Tensor) -> None:
    """Write what the first of three workers does of the sum over all of them."""
    number = bench.writer.constant("number", 1, "int64", bench.homes[0])
    places = [
        evolve(each, device=evolve(each.device, job="worker", task=at)) for at, each in enumerate(bench.homes)
    ]
    found = Between(bench.writer, places, 0, number, add_n)
    found.sum("of_all", value)
    found.sum("narrow", bench.writer.cast("wide", value, "float32", places[0]), narrowed(add_n, "bfloat16"))
    found.gather("of_each", [value, value])
    found.inbox("inbox")


def updated(bench: Bench, value: Tensor, handle: Tensor) -> None:
    """Write updates of a variable that take turns, a quotient, a staging area, and a part of a tensor."""
    at = Spot(bench.writer, "updated", bench.homes[0])
    at.op("DivNoNan", "quotient", value, *at.op("Reciprocal", "inverse", value))
    at.op("Sign", "sign", value)
    turn = take_turn(at, "held", contested=True, after=[value])
    (now,) = at.op("Timestamp", "now")
    inside = Spot(bench.writer, "updated", bench.homes[1]).waiting([*turn.taken, now.op])
    added = inside.run("AssignAddVariableOp", "added", handle, inside.times(value, 2.0))
    inside.waiting([added]).run("AssignSubVariableOp", "taken", handle, value)
    turn.ended(added)
    take_piece(at, value, cut("w", (3, 2), 0, 2)[1])
    told = {"dtypes": ["float16"], "shared_name": "area"}
    at.run("Stage", "put", value, **told)
    at.run("StageClear", "clear", **told)
    at.op("StageSize", "size", **told)


def looked_up(bench: Bench) -> None:
    """Write a look-up of rows of a table in two pieces, of which one has updates of rows only."""
    writer, (place, *_) = bench.writer, bench.homes
    shards = cut("table", (5, 2), 0, 2)
    sources = [
        WeightSource(
            SimpleNamespace(tensor=writer.variable(each.name, "float32", each.shape, each.name, place)),
            place,
            by_rows=each.number > 0,
        )
        for each in shards
    ]
    pieces = PieceWriter(CutSource(shards, tuple(sources)), [place, place], place, writer)
    pieces.look_up("looked_up", recorded(tf.compat.v1.placeholder(tf.int64, (4, 3))), "float16", place)


def counted(bench: Bench) -> None:
    """Write a loop that counts to three."""
    writer, place = bench.writer, bench.homes[2]
    first, most, one = (writer.constant(f"loop/{at}", at, "int32", place) for at in (0, 3, 1))

    def enter(name: str, value: Tensor, *, constant: bool) -> Tensor:
        told = {"frame_name": "loop", "is_constant": constant, "parallel_iterations": 1}
        return writer.write("Enter", f"loop/{name}", (value,), place, told)[0]

    later = Tensor("loop/next", "int32", ())
    merged, _ = writer.write("Merge", "loop/merge", (enter("enter", first, constant=False), later), place)
    less = writer.write("Less", "loop/less", (merged, enter("most", most, constant=True)), place)
    left, now = writer.write(
        "Switch", "loop/switch", (merged, *writer.write("LoopCond", "loop/on", less, place)), place
    )
    (sum_,) = writer.write("AddV2", "loop/add", (now, enter("one", one, constant=True)), place)
    writer.write("NextIteration", later.op, (sum_,), place)
    writer.write("Exit", "loop/exit", (left,), place)


def _rows(dtype: tf.DType = tf.int64) -> tf.IndexedSlices:
    """Return rows whose numbers are known in a step only."""
    return tf.IndexedSlices(
        tf.compat.v1.placeholder(tf.float32, (4, 2)), tf.compat.v1.placeholder(dtype, (4,))
    )


@pytest.mark.parametrize("name", CALLS)
def test_records_are_what_the_graph_has(name: str) -> None:
    """Op for op: types, inputs, results, places, what it waits for, and what it costs."""
    bench = Bench(3)
    with bench:
        written(bench, name)
        ops = list(bench.writer.ops)
    assert len(ops) > 25
    for tensor in (made for each in ops if each.name.startswith("loop/") for made in each.outputs):
        # which TensorFlow does not know of what comes from an iteration before
        bench.graph.get_tensor_by_name(tensor.name).set_shape(tensor.shape)
    assert [each.name for each in ops] == [
        each.name for each in bench.graph.get_operations() if each.name in {op.name for op in ops}
    ]
    for each in ops:
        real: Any = bench.graph.get_operation_by_name(each.name)
        assert real.type == each.type
        assert [tensor.name for tensor in real.inputs] == [tensor.name for tensor in each.inputs]
        assert sorted(before.name for before in real.control_inputs) == sorted(each.waits)
        made = [
            (
                tensor.name,
                tensor.dtype.name,
                None if tensor.shape.rank is None else (*tensor.shape.as_list(),),
            )
            for tensor in real.outputs
        ]
        assert made == [(tensor.name, tensor.dtype, tensor.shape) for tensor in each.outputs]
        assert bench.ledger.entries[each.name].placed == each.placed
        assert cost_of(each) == cost_of(record_of(real))


def test_every_type_is_written_by_some_part_of_a_step() -> None:
    """What the table says of each has been compared with TensorFlow."""
    found = set()
    for name in CALLS:
        bench = Bench(3)
        with bench:
            written(bench, name)
            found |= {each.type for each in bench.writer.ops}
    assert found == {*TYPES}


def test_names_are_those_that_tensorflow_gives() -> None:
    """A name that is there already gets the next number, whatever the case of its letters."""
    wanted = ["a", "a", "A", "a_1", "b/c", "b/c", "a"]
    names, graph = Names(), tf.Graph()
    assert [names(each) for each in wanted] == [graph.unique_name(each) for each in wanted]


def test_a_constant_is_written_once_for_each_device() -> None:
    """Not if it waits for something, or gives a variable its first value: that one moves with it."""
    bench = Bench(2)
    here, there = bench.homes

    def twice(writer: StepWriter, other: StepWriter, *second: Any) -> bool:
        first = writer.constant("first", [2, 3], "int32", here)
        return first == other.constant("second", *(second or ([2, 3], "int32", here)))

    sums = StepWriter("aggregate")
    assert twice(sums, sums.on("aggregate"))
    for second in ([2, 3], "int64", here), ([2, 3], "int32", there), ([2, 4], "int32", here):
        assert not twice(sums, sums, *second)
    for other in sums.on("update"), sums.on("aggregate", 1), sums.waiting(["first"]):
        assert not twice(sums, other)
    first_values = StepWriter("init")
    assert not twice(first_values, first_values)
