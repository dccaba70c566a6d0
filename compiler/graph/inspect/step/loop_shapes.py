"""The static shapes of ops in the loop over micro-batches, which TensorFlow does not follow into loops.

The variables of a loop keep their shapes. A copy of the graph in which they are passed on, and nothing comes
back, therefore has the shapes of every iteration. It is never run.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from compiler.graph.compiled import CompiledGraph
from compiler.graph.importing import import_nodes

_PASSED_ON = ("Enter", "Merge")
_WITHOUT_A_RULE = ("Unstage",)
_SHAPES = "_output_shapes"


def shaped_graph(compiled: CompiledGraph) -> tf.Graph:
    """Return a graph with the ops of a compiled graph by name, with the shapes of all ops in its loops.

    That is the graph itself if there are no loops over micro-batches.

    Args:
        compiled: The graph.
    """
    if compiled.plan.micro_batches == 1:
        return compiled.graph
    whole = compiled.graph.as_graph_def(add_shapes=True)
    for node in whole.node:
        if node.op in _PASSED_ON:
            _pass_on(node)
        if node.op not in _WITHOUT_A_RULE:
            node.attr.pop(_SHAPES, None)
    found = tf.Graph()
    import_nodes(found, whole, {})
    return found


def _pass_on(node: Any) -> None:
    """Let a node have the value with which its loop begins."""
    node.op = "Identity"
    del node.input[1:]
    for name in set(node.attr) - {"T"}:
        del node.attr[name]
