"""Transfers of the map are what TensorFlow sends: counted from the send nodes of the partition graphs."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import evolve

import grammar
from compiler.graph.fragments import write_traced
from compiler.graph.inspect.placement_map import map_placement
from compiler.reasons import Placed, Reason
from compiler.step.record import Run, Tensor
from compiler.step.writer import Spot
from dsl import ir
from tests.folders import EXAMPLES
from tests.specs import LINE
from tests.support import Training, cloned, spec_of

DIGITS = {"image": ((8, 8, 1), 10), "digit": ((), 10)}
CIFAR = {"image": ((32, 32, 3), 10), "label": ((), 10)}

SEVERAL = """
  word = input(int32, [5])
  image = input(float32, [8, 8, 3])
  label = input(int32, [])
  read = word -> Embedding(50, 8, name = "table") -> LSTM(6, name = "rnn")
  seen = image -> Conv2D(4, 3, activation = relu, name = "conv1") -> BatchNormalization(name = "bn")
    -> Dropout(0.5, name = "drop") -> Flatten(name = "flat") -> Dense(5, name = "fc")
  logits = [read, seen] -> Concatenate(name = "cat") -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  regularize = L2(1e-4)
"""
SEVERAL_DATA = {"word": ((5,), 50), "image": ((8, 8, 3), 3), "label": ((), 3)}

WAITING = f"""{LINE}
devices {{ cpu = 3 }}
clones {{ count = 1, batch = 4 }}
update {{ optimizer = SGD(0.1) }}
"""

RULES = (
    "variables -> cpu[0]",
    "variables -> balanced(cpu[0..5])",
    "variables -> round_robin(cpu[4..5])\n updates -> cpu[0]",
    "variables -> replicated",
    "variables -> cpu[0]\n slots -> cpu[5]",
    'clones -> groups(cpu[*], size = 2)\n ops("conv1/*") -> group[1]\n ops("rnn/*") -> group[1]',
    'variables -> cpu[5]\n ops("fc/*") -> cpu[4]\n inputs -> cpu[4]\n ops("bn/*") -> cpu[0]',
)


def several(rules: str = "") -> str:
    """Return the text of a model with layers of several kinds on three clones, with some rules."""
    place, update = f"clones -> cpu[1..3]\n{rules}", "optimizer = Momentum(0.1)"
    return cloned(SEVERAL, 3, devices=6, place=place, update=update, seed=7)


def made_up(spec: ir.Spec, inputs: dict[str, tuple[tuple[int, ...], int]]) -> dict[str, Any]:
    """Return examples of the inputs of a spec: shape, and how many classes there are."""
    generator, dtypes = np.random.default_rng(0), {}
    for binding in spec.model.bindings:
        if isinstance(binding.value, ir.Input):
            dtypes[binding.name] = binding.value.dtype
    return {
        name: generator.integers(0, top, (256, *shape)).astype(dtypes[name])
        for name, (shape, top) in inputs.items()
    }


def sent(training: Training) -> tuple[dict[tuple[str, str], int], Counter[tuple[str, str]]]:
    """Do a step; return the bytes sent between pairs of devices, and the tensors of unknown size."""
    compiled = training.compiled
    metadata = training.traced([compiled.data_loss, compiled.train_op])
    plan, bytes_sent, unknown = compiled.plan, Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    refs = {plan.tensorflow_device(each): each.ref for each in plan.topology.devices}
    nodes = {node.name: node for part in metadata.partition_graphs for node in part.node}
    received = {node.attr["tensor_name"].s: node.name for node in nodes.values() if node.op == "_Recv"}
    for node in nodes.values():
        if node.op == "_Send":
            source, target = (refs[node.attr[each].s.decode()] for each in ("send_device", "recv_device"))
            arrived = received[node.attr["tensor_name"].s]
            known = size(compiled.graph, node.input[0], arrived, nodes)
            bytes_sent[source, target] += known or 0
            unknown[source, target] += known is None
    return {pair: count for pair, count in bytes_sent.items() if count}, +unknown


def size(graph: tf.Graph, tensor: str, arrived: str, nodes: dict[str, Any]) -> int | None:
    """Return the bytes of what is sent; the empty constants by which a device waits for another have none.

    The second output of a fused op is known by the op that takes it, as `arrived`.
    """
    base, _, index = tensor.partition(":")
    if nodes[base].op == "Const":
        return int(np.asarray(tf.make_ndarray(nodes[base].attr["value"].tensor)).nbytes)
    outputs = graph.get_operation_by_name(base).outputs
    if int(index or 0) < len(outputs):
        found = outputs[int(index or 0)]
    else:
        taker, at = next(
            (name, [*each.input].index(arrived)) for name, each in nodes.items() if arrived in each.input
        )
        found = graph.get_operation_by_name(taker).inputs[at]
    shape = tuple(found.shape.as_list()) if found.shape.rank is not None else (None,)
    return Tensor("", found.dtype.name, shape).bytes


def check(training: Training) -> int:
    """Compare what was sent with the map; return how many tensors of unknown size there were."""
    found, unknown = sent(training)
    transfers = {
        (each.from_device, each.to_device): each for each in map_placement(training.compiled).transfers
    }
    assert {pair: each.bytes for pair, each in transfers.items() if each.bytes} == found
    assert {pair: each.bytes_unknown for pair, each in transfers.items() if each.bytes_unknown} == unknown
    return unknown.total()


@pytest.mark.parametrize(
    ("name", "inputs"), [("digits", DIGITS), pytest.param("cifar10", CIFAR, marks=pytest.mark.full)]
)
def test_transfers_of_the_examples_are_what_is_sent(name: str, inputs: Any) -> None:
    """Byte for byte, on every link, with every declared device emulated."""
    spec = grammar.load(EXAMPLES / f"{name}.tfdeploy")
    with Training(spec, made_up(spec, inputs), emulate=True) as training:
        assert check(training) == 0


@pytest.mark.family(every=9)
@pytest.mark.parametrize("rules", RULES)
def test_transfers_of_every_layout_are_what_is_sent(rules: str) -> None:
    """Whatever the rules: loops, look-ups, dropout, statistics, slots apart and groups included."""
    spec = spec_of(several(rules))
    with Training(spec, made_up(spec, SEVERAL_DATA)) as training:
        check(training)


@pytest.mark.parametrize("waits", [False, True], ids=["free", "waited-for"])
def test_small_constants_are_copied_unless_something_waits_for_them(*, waits: bool) -> None:
    """TensorFlow makes copies where a constant is used; one that an op waits for is sent from where it is."""
    spec = spec_of(WAITING)
    data = {"x": np.ones((4, 3), np.float32), "y": np.ones((4, 1), np.float32)}

    def more(compiled: Any) -> Any:
        """Write a constant, and what uses it."""
        first, second, third = compiled.plan.topology.devices
        writer = compiled.ledger.writer("update")
        at = lambda device: Spot(writer, "", Placed(device, Reason("test", "default")))  # noqa: E731
        number = writer.constant("number", [1.0, 2.0, 3.0], "float32", at(first).placed)
        used = [write_traced(at(device), scaled, number) for device in (second, third)]
        used.append(write_traced(at(first).waiting([number.op] if waits else []), drawn))
        train_op = Run(writer.after("more", [compiled.train_op.name, *used], at(first).placed))
        return evolve(compiled, train_op=train_op, ledger=evolve(compiled.ledger))  # has not listed its ops

    def scaled(number: Any) -> Any:
        """Multiply random numbers."""
        return tf.multiply(tf.raw_ops.RandomUniform(shape=[3], dtype=tf.float32), number).op

    def drawn() -> Any:
        """Draw random numbers."""
        return tf.raw_ops.RandomUniform(shape=[2], dtype=tf.float32).op

    with Training(spec, data, change=more) as training:
        check(training)
        sent_there = {
            each.to_device
            for each in map_placement(training.compiled).transfers
            if "number:0" in str(each.largest)
        }
        assert sent_there == ({"cpu[1]", "cpu[2]"} if waits else set())
