"""Where each op ran, read from the partitions of a step that are made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from compiler.graph.inspect.one_step import read_assigned

HERE, THERE = "/device:CPU:0", "/device:CPU:1"


def node(name: str, op: str, *inputs: str, device: str = HERE, connection: str = "") -> Any:
    """Return a node of a partition."""
    made = tf.compat.v1.NodeDef(name=name, op=op, input=inputs, device=device)
    if connection:
        made.attr["tensor_name"].s = connection.encode()
    return made


def assigned(graph: tf.Graph, here: list[Any], there: list[Any] | None = None) -> dict[str, str]:
    """Return where the ops of a graph ran, by the partitions of two devices."""
    partitions = [SimpleNamespace(node=here), SimpleNamespace(node=there or [])]
    return read_assigned(graph, SimpleNamespace(partition_graphs=partitions))


def biased() -> tf.Graph:
    """Return a convolution with a bias and an activation."""
    with tf.Graph().as_default() as graph:
        x, w, b = (tf.compat.v1.placeholder(tf.float32, name=each) for each in "xwb")
        made = tf.raw_ops.Conv2D(input=x, filter=w, strides=[1] * 4, padding="SAME", name="conv")
        tf.nn.relu(tf.raw_ops.BiasAdd(value=made, bias=b, name="bias"), name="relu")
    return graph


def test_ops_are_where_nodes_of_their_names_are() -> None:
    """What is only in a partition is no op, and what is in none has no device."""
    found = assigned(
        biased(), [node("x", "Placeholder"), node("new", "NoOp")], [node("w", "Placeholder", device=THERE)]
    )
    assert found == {"x": HERE, "w": THERE}


def test_fused_ops_are_where_the_op_is_that_does_their_work() -> None:
    """That has their inputs, also if these come from another device."""
    inputs = [node("x", "Placeholder"), node("b", "Placeholder")]
    fused = node("bias", "_FusedConv2D", "x", "w/received", "b")
    sent = [
        node("w", "Placeholder", device=THERE),
        node("w/sent", "_Send", "w", device=THERE, connection="edge"),
    ]
    received = node("w/received", "_Recv", connection="edge")
    found = assigned(biased(), [*inputs, received, fused], sent)
    assert found == {"x": HERE, "b": HERE, "w": THERE, "bias": HERE, "conv": HERE}
    whole = node("relu", "_FusedConv2D", "x", "w/received", "b")
    assert assigned(biased(), [*inputs, received, whole], sent)["conv"] == HERE
    assert assigned(biased(), [*inputs, received, whole], sent)["bias"] == HERE


def test_an_op_is_not_fused_with_one_that_lacks_its_inputs() -> None:
    """Or that has become no other op than it was."""
    inputs = [node(each, "Placeholder") for each in "xwb"]
    assert "conv" not in assigned(biased(), [*inputs, node("bias", "_FusedConv2D", "x", "b")])
    assert "conv" not in assigned(biased(), [*inputs, node("bias", "BiasAdd", "x", "w", "b")])
    assert "conv" not in assigned(biased(), [*inputs, node("bias", "_FusedConv2D", "x", "^w", "b")])


def test_copies_of_a_constant_are_where_it_is_used() -> None:
    """It is where it was asked to be if a copy is there, and else where one is."""
    with tf.Graph().as_default() as graph, tf.device(THERE):
        tf.constant([1.0], name="number")
    asked = graph.get_operation_by_name("number").device
    copies = [node("number/a", "Const"), node("number/b", "Const", device=asked)]
    assert assigned(graph, copies) == {"number": asked}
    assert assigned(graph, copies[:1]) == {"number": HERE}
    assert assigned(graph, [node("number/a", "_Recv"), node("number/b", "_Send", "x")]) == {}


def test_a_loop_is_where_its_ops_are() -> None:
    """These have its name as the beginning of theirs, however deep, also as the arguments of a function."""
    with tf.Graph().as_default() as graph:
        tf.no_op(name="loop")
        tf.no_op(name="loop_1")
    deep = [node("loop/body/MatMul", "MatMul", device=THERE)]
    assert assigned(graph, deep) == {"loop": THERE}
    assert assigned(graph, [node("Func/loop/input/_3", "Identity", device=THERE)]) == {"loop": THERE}
    assert assigned(graph, [node("loop", "NoOp"), *deep]) == {"loop": HERE}
