"""What becomes of a traced tower: the ops that are needed, by the names of the model, with their roles."""

from __future__ import annotations

import re

import pytest
import tensorflow as tf

from compiler.graph.tower.template import Gradient, LossPart, Template, TowerResults
from compiler.graph.tower.trim import trim

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
