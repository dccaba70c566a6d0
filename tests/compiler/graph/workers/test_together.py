"""What workers and servers send each other in one tensor: small weights and gradients, and rows of tables."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.one_step import StepCopy, before_a_step, run_one_step
from compiler.graph.inspect.placement_map import map_placement
from tests.graphs import graph_of
from tests.support import cloned, rounding, spec_of

MODEL = """
  word = input(int32, [5])
  x = input(float32, [3])
  label = input(int32, [])
  rows = word -> Embedding(100, 6, name = "table") -> Flatten()
  wide = x -> Dense(4, name = "wide")
  {more}
  logits = [{joined}] -> Concatenate() -> Dense({units}, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""
DENSE = """
  x = input(float32, [130])
  label = input(int32, [])
  logits = x -> Dense(130, name = "large") -> Dense(1) -> Dense(3) -> Dense(3, use_bias = false)
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""
SERVERS = """job "ps" { tasks = 2 }
  job "worker" { tasks = 2 }"""
PIECES = """variables -> round_robin(ps[*])
  variables("*table/*") -> sharded(ps[*])"""
UPDATE = "mode = async, optimizer = SGD(0.5)"
CHOSEN = """scores = wide -> Dense(9, name = "scores")
  chosen = ops.argmax(scores, axis = 1)
  other = chosen -> Embedding(9, 2, name = "other_table")"""


def spec(*, units: int = 3, rules: str = PIECES, more: str = "", joined: str = "rows, wide") -> Any:
    """Return the spec of a model with a table in pieces on two servers, and other weights beside them."""
    model = MODEL.format(units=units, more=more, joined=joined)
    return spec_of(cloned(model, devices=SERVERS, place=rules, update=UPDATE, seed=7))


def of_dense(update: str, model: str = DENSE) -> CompiledGraph:
    """Return the graph of the second worker for a model without a table."""
    update = f"{update}, optimizer = SGD(0.5), replication = between_graph"
    devices = SERVERS.replace("2", "1", 1)
    return of_worker(spec_of(cloned(model, None, devices=devices, place="variables -> ps[0]", update=update)))


def of_worker(found: Any) -> CompiledGraph:
    """Return the graph of the second worker."""
    return graph_of(found, emulate=True, worker=1)


@pytest.fixture(scope="module")
def worker() -> CompiledGraph:
    """Return the graph of a worker that all tests of this file may read."""
    return of_worker(spec())


def sent(compiled: CompiledGraph, source: str, target: str) -> set[str]:
    """Return the tensors of fractions that a step sends from a task to another."""
    step = compiled.step

    def host(name: str) -> str:
        return step.ops[name].device.ref.partition(".")[0]

    return {
        tensor.name
        for op in step.run
        for tensor in op.inputs
        if tensor.dtype.startswith("float") and host(op.name) == target and host(tensor.op) == source
    }


@pytest.mark.parametrize("server", ["ps[0]", "ps[1]"])
def test_rows_and_small_tensors_of_a_server_are_sent_as_one(worker: CompiledGraph, server: str) -> None:
    """There and back, whatever number of weights a server has beside its piece of the table."""
    beside = [each.name for each in worker.variables.values() if each.beside().device.ref.startswith(server)]
    assert len(beside) == 3  # a piece of the table, a kernel or two, a bias or two
    assert len(sent(worker, server, "worker[1]")) == 1
    assert len(sent(worker, "worker[1]", server)) == 1


def test_the_map_counts_the_weights_that_come_with_rows(worker: CompiledGraph) -> None:
    """The number of rows is not known before a step, but the bytes of the weights and gradients are."""
    weights = 4 * (3 * 4 + 4 + 34 * 3 + 3)
    found = [each for each in map_placement(worker).transfers if each.bytes_unknown]
    ways = {(each.from_device.partition("[")[0], each.to_device.partition("[")[0]) for each in found}
    assert ways == {("ps", "worker"), ("worker", "ps")}
    back = sum(each.bytes for each in found if each.from_device.startswith("ps"))
    assert 2 * weights <= back < 2 * weights + 200


def test_a_large_weight_is_sent_by_itself() -> None:
    """More than 64 KiB are neither joined with others nor parted from them: 34 x 4000 numbers."""
    compiled = of_worker(spec(units=4000))
    kernel = compiled.variables["logits/kernel"].beside().device.ref.partition(".")[0]
    assert "logits/kernel/read:0" in sent(compiled, kernel, "worker[1]")
    gradients = sent(compiled, "worker[1]", kernel)
    assert any("MatMul" in each for each in gradients)


@pytest.mark.parametrize("update", ["mode = async", "mode = sync", "mode = sync, accumulate = 2"])
def test_small_weights_and_gradients_are_one_tensor_each_way_without_rows(update: str) -> None:
    """Also in sync, in whose mailboxes they are together; large ones are sent by themselves."""
    compiled = of_dense(update)
    there, back = (sent(compiled, *way) for way in (("ps[0]", "worker[1]"), ("worker[1]", "ps[0]")))
    assert len(there) == 2
    assert "large/kernel/read:0" in there
    assert len(back) == 2 + ("= sync" in update)  # and the report
    boxes = compiled.exchange.boxes if compiled.exchange is not None else ()
    assert [each.shape for each in boxes if "together" in each.name] == [(130 + 130 + 1 + 3 + 3 + 9,)] * bool(
        boxes
    )


@pytest.mark.parametrize(("update", "tensors"), [("mean", 1), ("first", 0)])
def test_statistics_of_a_worker_are_one_tensor(update: str, tensors: int) -> None:
    """Its parts of the means and variances of two layers; those of clone 0 come from the chief alone."""
    model = DENSE.replace("Dense(1)", "BatchNormalization() -> Dense(1) -> BatchNormalization()")
    compiled = of_dense(f"mode = sync, batch_norm = {update}", model)
    boxes = [each for each in compiled.exchange.boxes if f"together/{update}" in each.name]
    assert [each.shape for each in boxes] == [(2 * (130 + 1),)] * tensors
    assert len(sent(compiled, "worker[1]", "ps[0]")) == 2 + tensors + 1  # gradients, and the report


def after_a_step(compiled: CompiledGraph, examples: dict[str, Any]) -> dict[str, Any]:
    """Return the variables after an update with some examples; pieces are joined."""
    with StepCopy.of(compiled) as copy:
        copy.run([compiled.init_op])
        for pipe in compiled.train_inputs:
            copy.start(pipe, examples)
        for fetches in (*before_a_step(compiled), [compiled.train_op]):
            copy.run(fetches)
        found: dict[str, list[Any]] = {}
        with copy.graph.as_default():
            for each in compiled.variables.values():
                handle = copy.graph.get_tensor_by_name(each.copies[0].handle.name)
                read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=each.info.dtype)
                found.setdefault(each.weight, []).append(copy.session.run(read))
    return {name: np.concatenate(pieces) for name, pieces in found.items()}


@pytest.mark.family(every=3)
@pytest.mark.parametrize("words", [(0, 100), (0, 40), (60, 100)])
def test_an_update_is_that_of_one_tower(worker: CompiledGraph, words: tuple[int, int]) -> None:
    """Also if no row comes from one of the servers."""
    generator = np.random.default_rng(1)
    examples = {
        "word": generator.integers(*words, (4, 5)).astype(np.int32),
        "x": generator.random((4, 3), np.float32),
        "label": np.array([0, 1, 2, 1], np.int32),
    }
    model = MODEL.format(units=3, more="", joined="rows, wide")
    text = cloned(model, 1, place="variables -> cpu[0]", update=UPDATE, seed=7)
    alone = after_a_step(graph_of(spec_of(text)), examples)
    together = after_a_step(worker, examples)
    assert alone.keys() == together.keys()
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, atol=rounding(40), err_msg=name)


def test_a_weight_that_decides_which_rows_are_needed_is_not_sent_with_them() -> None:
    """It would wait for itself."""
    compiled = of_worker(spec(more=CHOSEN, joined="wide, other"))
    assert map_placement(compiled, run_one_step(compiled)).misplaced == ()
    ops = compiled.step.ops
    assert not any("/with/" in each for each in ops)
    assert {"wide/kernel/read/sent", "scores/kernel/read/sent"} <= ops.keys()  # with other weights


def test_the_map_has_every_op_where_it_was_asked_to_be(worker: CompiledGraph) -> None:
    """What joins and parts tensors runs beside what it joins, and where the parts are used."""
    assert map_placement(worker, run_one_step(worker)).misplaced == ()
