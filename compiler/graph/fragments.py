"""Fragments of a step: ops that TensorFlow's functions write in a graph of their own."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from compiler.step.record import Fragment, Made


def fragment_of(graph: tf.Graph, result: tf.Tensor | tf.Operation | None = None) -> Fragment:
    """Return the ops of a graph as a fragment, without the placeholders for what is given to it.

    Args:
        graph: The graph.
        result: What the fragment is for. Ops that it does not need are left out; None to keep all.
    """
    whole = graph.as_graph_def()
    op = result.op if isinstance(result, tf.Tensor) else result
    needed = None if op is None else _ancestors(op)
    nodes = tf.compat.v1.GraphDef(library=whole.library)
    nodes.node.extend(
        node for node in whole.node if node.op != "Placeholder" and (needed is None or node.name in needed)
    )
    made = {node.name: made_by(graph.get_operation_by_name(node.name)) for node in nodes.node}
    return Fragment(nodes, None if result is None else str(result.name), made)


def made_by(op: tf.Operation) -> Made:
    """Return the type and shape of each result of an op."""
    return [
        (each.dtype.name, None if each.shape.rank is None else tuple(each.shape.as_list()))
        for each in op.outputs
    ]


def _ancestors(op: tf.Operation) -> set[str]:
    pending: list[Any] = [op]
    seen: set[str] = set()
    while pending:
        each = pending.pop()
        if each.name not in seen:
            seen.add(each.name)
            pending += [*(tensor.op for tensor in each.inputs), *each.control_inputs]
    return seen
