"""What becomes of a traced tower: its names and roles, the ops that it needs, and what is left out of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.tower.network.keras_scope import NamingGraph
from compiler.graph.tower.template import Gradient, LossPart, Template, TowerResults
from compiler.graph.tower.trim import Shape, Simplifier, trim

PATHS = {"encoder_query": "encoder/query", "plain": "plain"}


@pytest.fixture(scope="module")
def template() -> Template:
    """A tower with a layer inside another, which is used twice, its gradients, a metric and unused ops."""
    with tf.Graph().as_default() as graph:
        with tf.name_scope("ports/"):
            x = tf.compat.v1.placeholder(tf.float32, (4, 3), "x")
            unused = tf.compat.v1.placeholder(tf.float32, (4,), "unused")
            kernel = tf.compat.v1.placeholder(tf.float32, (3, 3), "kernel")
            table = tf.compat.v1.placeholder(tf.float32, (5, 3), "table")
            scale = tf.compat.v1.placeholder(tf.float32, (), "scale")
        with tf.name_scope("encoder_query/"):
            first = tf.matmul(x, kernel, name="MatMul")
        with tf.name_scope("encoder_query_1/"), tf.device("/device:CPU:1"):
            second = tf.matmul(first, kernel, name="MatMul")
        with tf.name_scope("plain/"), graph.colocate_with(first.op):
            rows = tf.gather(table, [1, 2, 0, 1], name="rows")
            out = tf.add(second, rows, name="out")
        with tf.name_scope("encoder_other/"):
            tf.nn.relu(out, name="Relu")
        with tf.name_scope("other_2/"):  # layers that begin like others, or end like a second call
            seen = tf.abs(out, name="Abs")
        with tf.name_scope("encoder_query_more/"):
            seen = tf.abs(seen, name="Abs")
        with tf.name_scope("loss/"):
            loss = tf.reduce_mean(seen, name="mean")
            scaled = tf.multiply(loss, scale, name="scaled")
        with tf.name_scope("metrics/total/"):
            total = tf.reduce_sum(out, name="Sum")
        found = tf.gradients(scaled, [kernel, table], name="gradients")
        dense, rows = found
        gradients = {
            "encoder/query/kernel": Gradient(dense),
            "plain/table": Gradient(rows.values, rows.indices),
        }
        traced = TowerResults(
            outputs=(out,),
            losses=(LossPart(loss, None, gradients),),
            state_updates={},
            metric_states={"total": (total,)},
            metrics={},
            weights={"encoder/query/kernel": kernel, "plain/table": table, "lost": unused},
            inputs={"x": x, "unused": unused},
            seed=None,
            scale=scale,
            inverse_share=None,
        )
        return trim(graph, traced, PATHS)


def test_only_what_is_needed_is_kept(template: Template) -> None:
    """Ops and ports that no result depends on are left out."""
    names = {node.name for node in template.graph_def.node}
    assert not any("Relu" in each or "unused" in each for each in names)
    assert template.inputs == {"x": "ports/x"}
    assert template.weights == {"encoder/query/kernel": "ports/kernel", "plain/table": "ports/table"}
    assert (template.scale, template.seed, template.inverse_share) == ("ports/scale", None, None)


def test_ops_have_the_names_of_the_layers(template: Template) -> None:
    """Also in the gradients, and in the second call of a layer; inputs follow them."""
    nodes = {node.name: node for node in template.graph_def.node}
    assert {"encoder/query/MatMul", "encoder/query_1/MatMul", "plain/out"} <= nodes.keys()
    assert {"other_2/Abs", "encoder_query_more/Abs"} <= nodes.keys()
    old = re.compile(r"encoder_query(_1)?/")
    assert not any(old.search(each) for node in nodes.values() for each in (node.name, *node.input))
    assert list(nodes["encoder/query_1/MatMul"].input) == ["encoder/query/MatMul", "ports/kernel"]
    assert any(each.startswith("gradients/encoder/query_1/MatMul_grad/") for each in nodes)
    assert template.outputs == ("plain/out",)


def test_ops_are_free_of_devices(template: Template) -> None:
    """These are given op by op when the tower is stamped."""
    assert all(node.device == "" and "_class" not in node.attr for node in template.graph_def.node)


def test_every_op_has_its_role(template: Template) -> None:
    """By the scope in which it was traced."""
    assert template.roles.keys() == {node.name for node in template.graph_def.node}
    kinds = {"gradients": "gradient", "metrics": "metric"}
    for name, role in template.roles.items():
        assert role == kinds.get(name.partition("/")[0], "forward"), name
    assert set(template.roles.values()) == {"forward", "gradient", "metric"}


def test_gradients_follow_their_forward_ops(template: Template) -> None:
    """Sums of the gradients of a weight that is used twice follow the op of which the first came."""
    gradients = [name for name, role in template.roles.items() if role == "gradient"]
    assert set(template.follows) <= set(gradients)
    for name in gradients:
        if "_grad/" in name:
            forward = name.removeprefix("gradients/").partition("_grad/")[0]
            assert template.follows[name] == forward
            assert template.roles.get(forward, "forward") == "forward"  # which may not be needed itself
    (part,) = template.losses
    (total,) = {part.gradients["encoder/query/kernel"].values.partition(":")[0]}
    assert "AddN" in total
    assert template.follows[total] in {"encoder/query/MatMul", "encoder/query_1/MatMul"}


def test_results_are_known_by_name_type_and_shape(template: Template) -> None:
    """Rows of a table are two tensors."""
    (part,) = template.losses
    assert (part.value, part.weight) == ("loss/mean", None)
    rows = part.gradients["plain/table"]
    assert rows.indices is not None
    shapes = {name: (each.dtype, each.shape) for name, each in template.results.items()}
    assert shapes["plain/out"] == ("float32", (4, 3))
    assert shapes["loss/mean"] == ("float32", ())
    assert shapes[part.gradients["encoder/query/kernel"].values] == ("float32", (3, 3))
    assert shapes[rows.values][1] == (4, 3)
    assert shapes[rows.indices] == ("int32", (4,))
    assert template.metric_states["total"] == ("metrics/total/Sum",)
    assert set(shapes) == {
        *template.outputs,
        part.value,
        *template.metric_states["total"],
        part.gradients["encoder/query/kernel"].values,
        rows.values,
        rows.indices,
    }


def test_each_result_is_known_by_the_output_of_its_op() -> None:
    """Also those after the first, the weight of a part of the loss, and new values of statistics."""
    with tf.Graph().as_default() as graph:
        with tf.name_scope("ports/"):
            x = tf.compat.v1.placeholder(tf.float32, (4, 3), "x")
            anything = tf.compat.v1.placeholder(tf.float32, None, "anything")
            seed = tf.compat.v1.placeholder(tf.uint32, (2,), "seed")
            share = tf.compat.v1.placeholder(tf.float32, (), "inverse_share")
        with tf.name_scope("encoder_query/"):
            first, second, third = tf.split(x, 3, axis=1, name="split")
            drawn = tf.cast(seed, tf.float32, name="drawn")
        with tf.name_scope("loss/"):
            value = tf.multiply(tf.reduce_sum(drawn, name="sum"), share, name="value")
            weight = tf.reduce_sum(third, name="weight")
        traced = TowerResults(
            outputs=(third, first),
            losses=(LossPart(value, weight),),
            state_updates={"norm/mean": second, "norm/any": anything},
            metric_states={},
            metrics={},
            weights={"norm/any": anything},
            inputs={"x": x},
            seed=seed,
            scale=None,
            inverse_share=share,
            joins_examples=True,
        )
        found = trim(graph, traced, PATHS)
    assert found.outputs == ("encoder/query/split:2", "encoder/query/split")
    assert found.losses == (LossPart("loss/value", "loss/weight", {}),)
    assert found.state_updates == {"norm/mean": "encoder/query/split:1", "norm/any": "ports/anything"}
    assert (found.seed, found.scale, found.inverse_share) == ("ports/seed", None, "ports/inverse_share")
    assert found.joins_examples
    shapes = {name: each.shape for name, each in found.results.items()}
    assert (shapes["encoder/query/split:1"], shapes["ports/anything"]) == ((4, 1), None)
    assert found.graph_def.versions == graph.as_graph_def().versions


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


def test_equal_constants_are_one_op() -> None:
    """Constants are equal if their values, types and shapes are; what is made of them differs."""
    with NamingGraph(share_constants=True).as_default() as graph:
        one, same = tf.constant(1.0), tf.constant(1.0)
        others = [tf.constant(2.0), tf.constant(1.0, tf.float64), tf.constant([1.0])]
        sums = [one + one, one + one]
    assert one.op is same.op
    assert len({each.op.name for each in (one, *others, *sums)}) == 6
    assert len(graph.get_operations()) == 6


def test_constants_stay_apart_if_rules_place_parts_of_a_tower() -> None:
    """Each may then be on another device."""
    with NamingGraph(share_constants=False).as_default():
        assert tf.constant(1.0).op is not tf.constant(1.0).op


def test_an_empty_scope_leaves_its_name() -> None:
    """A scope with an op in it does not."""
    with NamingGraph(share_constants=True).as_default():
        with tf.name_scope("query"):
            pass
        with tf.name_scope("query"):
            first = tf.compat.v1.placeholder(tf.float32, name="x")
        with tf.name_scope("query"):
            second = tf.compat.v1.placeholder(tf.float32, name="x")
    assert [first.name, second.name] == ["query/x:0", "query_1/x:0"]
