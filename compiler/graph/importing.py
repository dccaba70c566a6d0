"""Add a GraphDef to a graph, as `tf.import_graph_def` does, without its bookkeeping per op.

TensorFlow's own importer takes each new op's device away and gives it back through the stack of device
functions, and looks up colocations and control flow contexts. Stamped nodes have their devices, are colocated
with nothing and stand in no context, and there are tens of thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from compiler.graph.adapters.tensorflow_private import add_nodes, from_library


def import_nodes(graph: tf.Graph, graph_def: Any, outside: Mapping[str, tf.Tensor]) -> None:
    """Add the nodes of `graph_def` to `graph`.

    `outside` gives the tensors of `graph` that the nodes take as inputs, by the names they have there.
    Raises ValueError if a node is not well formed.
    """
    try:
        add_nodes(graph, graph_def, dict(outside))
    except tf.errors.InvalidArgumentError as fault:
        raise ValueError(str(fault)) from fault
    for each in from_library(graph_def.library) if graph_def.library.function else ():
        each.add_to_graph(graph)
