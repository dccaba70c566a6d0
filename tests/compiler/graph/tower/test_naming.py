"""The graph in which a tower is traced."""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.tower.network.keras_scope import NamingGraph


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
