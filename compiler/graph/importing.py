"""Add a GraphDef to a graph as `tf.import_graph_def` does, without its bookkeeping for each op.

TensorFlow's own importer removes the device of each new op and restores it through the stack of device
functions, and looks up colocations and control flow contexts. Stamped nodes have their devices already, are
not colocated and belong to no context, and there are tens of thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from compiler.graph.adapters.tensorflow_private import add_nodes, from_library


def import_nodes(graph: tf.Graph, graph_def: Any, outside: Mapping[str, tf.Tensor]) -> None:
    """Add nodes to a graph.

    Raises:
        ValueError: A node is not well formed.
    """
    try:
        add_nodes(graph, graph_def, dict(outside))
    except tf.errors.InvalidArgumentError as fault:
        raise ValueError(str(fault)) from fault
    with graph.as_default():  # outside of a graph, TensorFlow would add functions elsewhere
        for each in from_library(graph_def.library) if graph_def.library.function else ():
            each.add_to_graph(graph)
