"""What is left out of a traced tower: equal constants, known shapes, and reshapes that come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.tower.trim import Shape, Simplifier


def simplified(make: Callable[[], Any], *, share: bool = True) -> tuple[Simplifier, dict[str, Any]]:
    """Return the simplifier after a graph, and the nodes that remain by name."""
    with tf.Graph().as_default() as graph:
        make()

    def shape_of(tensor: str) -> Shape:
        base, _, index = tensor.partition(":")
        shape = graph.get_operation_by_name(base).outputs[int(index or 0)].shape
        return None if shape.rank is None else tuple(shape.as_list())

    simplifier = Simplifier(shape_of, share)
    return simplifier, {node.name: node for node in simplifier.run(graph.as_graph_def().node)}


def port(shape: tuple[int | None, ...] | None, name: str = "x") -> Any:
    """Add an input of the tower."""
    return tf.compat.v1.placeholder(tf.float32, shape, name)


@pytest.mark.parametrize("share", [True, False])
def test_equal_constants_become_one(*, share: bool) -> None:
    """Of equal type, shape and value; rules that place parts of a tower need each where it is used."""

    def make() -> None:
        first, second = tf.constant(2.0, name="a"), tf.constant(2.0, name="b")
        tf.add(first, second, name="sum")
        tf.constant(2, name="whole")
        tf.constant([2.0], name="row")

    simplifier, nodes = simplified(make, share=share)
    assert nodes.keys() == {"a", "sum", "whole", "row"} | (set() if share else {"b"})
    assert list(nodes["sum"].input) == ["a", "a" if share else "b"]
    assert simplifier.resolve("b") == ("a" if share else "b")


def test_a_constant_waits_for_nothing_and_its_stand_in_is_waited_for() -> None:
    """Control inputs of constants are left out; those to a constant that is left out go to the other one."""

    def make() -> None:
        tf.constant(3.0, name="a")
        with tf.control_dependencies([port((), "x")]):
            second = tf.constant(3.0, name="b")
            tf.constant(4.0, name="c")
        with tf.control_dependencies([second]):
            tf.no_op(name="end")

    _, nodes = simplified(make)
    assert list(nodes["c"].input) == []
    assert list(nodes["end"].input) == ["^a"]
    assert "b" not in nodes


@pytest.mark.parametrize("out", [tf.int32, tf.int64])
def test_known_shapes_are_constants(out: tf.DType) -> None:
    """Of one tensor and of several, each with the type that was asked for; one that is equal is shared."""

    def make() -> None:
        one, other, same = port((4, 3)), port((), "y"), port((4, 3), "z")
        tf.raw_ops.Shape(input=one, out_type=out, name="shape")
        shapes = tf.raw_ops.ShapeN(input=[other, one, same], out_type=out, name="shapes")
        for at, each in enumerate(shapes):
            tf.identity(each, name=f"used_{at}")

    _, nodes = simplified(make)
    found = tf.make_ndarray(nodes["shape"].attr["value"].tensor)
    assert (nodes["shape"].op, found.tolist(), found.dtype) == ("Const", [4, 3], out.as_numpy_dtype)
    scalar = tf.make_ndarray(nodes["shapes"].attr["value"].tensor)
    assert (scalar.shape, scalar.dtype) == ((0,), out.as_numpy_dtype)
    assert [nodes[f"used_{at}"].input[0] for at in range(3)] == ["shapes", "shape", "shape"]
    assert "shapes/1" not in nodes


def test_shapes_of_several_tensors_have_names_of_their_own() -> None:
    """The second and third output are read from other nodes."""

    def make() -> None:
        shapes = tf.raw_ops.ShapeN(input=[port((4,)), port((5,), "y"), port((6,), "z")], name="shapes")
        tf.concat(shapes, 0, name="all")

    _, nodes = simplified(make)
    assert list(nodes["all"].input)[:3] == ["shapes", "shapes/1", "shapes/2"]
    values = [tf.make_ndarray(nodes[each].attr["value"].tensor).tolist() for each in nodes["all"].input[:3]]
    assert values == [[4], [5], [6]]


@pytest.mark.parametrize("shape", [(None, 3), None])
def test_unknown_shapes_stay(shape: tuple[int | None, ...] | None) -> None:
    """One that is not known is computed, and all that are asked for together with it."""

    def make() -> None:
        one = port(shape)
        tf.raw_ops.Shape(input=one, name="shape")
        tf.raw_ops.ShapeN(input=[port((2,), "y"), one], name="shapes")

    _, nodes = simplified(make)
    assert (nodes["shape"].op, nodes["shapes"].op) == ("Shape", "ShapeN")


def test_reshapes_that_come_back_are_left_out() -> None:
    """A chain that ends with the shape it began with is the tensor at its beginning, whatever is between."""

    def make() -> None:
        x = port((2, 3))
        flat = tf.reshape(x, [6], name="flat")
        wide = tf.expand_dims(flat, 0, name="wide")
        back = tf.reshape(wide, [2, 3], name="back")
        tf.identity(back, name="same")
        tf.identity(wide, name="other")
        turned = tf.reshape(x, [3, 2], name="turned")
        tf.squeeze(tf.reshape(turned, [3, 1, 2], name="long"), name="short")

    simplifier, nodes = simplified(make)
    assert nodes["same"].input[0] == "x"
    assert nodes["other"].input[0] == "wide"
    assert nodes.keys() >= {"flat", "wide", "turned", "long", "short"}
    assert "back" not in nodes
    assert simplifier.resolve("back") == "x"


def test_a_reshape_of_unknown_size_stays() -> None:
    """Its shape may be another one than that of its input, even if both look alike."""

    def make() -> None:
        x = port((None, 3))
        tf.identity(tf.reshape(x, [-1, 3], name="rows"), name="used")

    _, nodes = simplified(make)
    assert nodes["used"].input[0] == "rows"


def test_what_remains_computes_the_same() -> None:
    """The nodes that remain are a graph, which gives the numbers of the whole one."""

    def make() -> None:
        x = port((2, 3))
        flat = tf.reshape(x, tf.shape(tf.constant(np.zeros(6, np.float32))), name="flat")
        back = tf.reshape(flat, tf.shape(x), name="back")
        tf.multiply(tf.add(back, tf.constant(2.0)), tf.constant(2.0), name="out")

    _, nodes = simplified(make)
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.import_graph_def(tf.compat.v1.GraphDef(node=nodes.values()), name="")
        found = session.run(graph.get_tensor_by_name("out:0"), {"x:0": given})
    np.testing.assert_array_equal(found, (given + 2) * 2)
