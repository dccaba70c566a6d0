"""Runs of a session that know beforehand what is fed and fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensorflow as tf

from tfdeploy.runtime.session.engine import Engine

Graph = tuple[tf.compat.v1.Session, tf.Tensor, dict[str, Any]]


@pytest.fixture(name="graph", scope="module")
def fixture_graph() -> Iterator[Graph]:
    """Yield a session, a tensor to feed, and what can be fetched."""
    with tf.Graph().as_default() as graph:
        given = tf.compat.v1.placeholder(tf.int64, (2,), name="given")
        total = tf.raw_ops.VarHandleOp(dtype=tf.int64, shape=(2,), shared_name="total")
        init = tf.raw_ops.AssignVariableOp(resource=total, value=tf.zeros((2,), tf.int64))
        fetches = {
            "add": tf.raw_ops.AssignAddVariableOp(resource=total, value=given),
            "double": given * 2,
            "words": tf.strings.as_string(given[0]),
            "total": tf.raw_ops.ReadVariableOp(resource=total, dtype=tf.int64),
            "refuse": tf.gather(tf.constant([1.0]), given[0], name="refuse"),
        }
    with tf.compat.v1.Session(graph=graph) as session:
        session.run(init)
        yield session, given, fetches


def fed(graph: Graph, fetches: Any) -> Callable[..., Any]:
    """Return the function that an engine makes."""
    session, given, _ = graph
    return Engine(None, session, None).fed_callable(fetches, [given])  # type: ignore[arg-type]


def test_values_have_the_structure_of_what_is_fetched(graph: Graph) -> None:
    """Ops give None, and what is fetched twice is given twice; each call feeds other values."""
    add, double, words = (graph[2][each] for each in ("add", "double", "words"))
    run = fed(graph, {"op": add, "twice": [double, double], "rest": {"words": words}})
    for value in ((1, 2), (3, 4)):
        found = run(value)
        assert found["op"] is None
        assert [each.tolist() for each in found["twice"]] == [[2 * each for each in value]] * 2
        assert found["rest"] == {"words": str(value[0]).encode()}
    assert fed(graph, graph[2]["total"])((0, 0)).tolist() == [4, 6]  # ops run once in each call


def test_faults_name_their_op_as_those_of_a_session_do(graph: Graph) -> None:
    """Messages about faults say which layer has failed, which they know by the op."""
    with pytest.raises(tf.errors.InvalidArgumentError) as fault:
        fed(graph, graph[2]["refuse"])((5, 5))
    assert fault.value.op is graph[2]["refuse"].op
