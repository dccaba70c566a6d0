"""Add a GraphDef to a graph, as `tf.import_graph_def` does, without its bookkeeping per op.

TensorFlow's own importer takes each new op's device away and gives it back through the stack of device
functions, and looks up colocations and control flow contexts. Stamped nodes have their devices, are colocated
with nothing and stand in no context, and there are tens of thousands of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session as c_api
from tensorflow.python.framework import c_api_util, function


def import_nodes(graph: tf.Graph, graph_def: Any, outside: Mapping[str, tf.Tensor]) -> None:
    """Add the nodes of `graph_def` to `graph`.

    `outside` gives the tensors of the graph that they take, by name.
    Raises ValueError where a node is not well formed.
    """
    scoped = c_api_util.ScopedTFImportGraphDefOptions()
    options = scoped.options
    c_api.TF_ImportGraphDefOptionsSetPrefix(options, "")
    c_api.TF_ImportGraphDefOptionsSetUniquifyNames(options, False)
    c_api.TF_ImportGraphDefOptionsSetValidateColocationConstraints(options, False)
    for name, tensor in outside.items():
        base, _, index = name.partition(":")
        c_api.TF_ImportGraphDefOptionsAddInputMapping(options, base, int(index or 0), tensor._as_tf_output())  # noqa: SLF001
    with graph._mutation_lock():  # noqa: SLF001  # as TensorFlow's importer: no session may run in between
        buffer = c_api.TF_NewBufferFromString(graph_def.SerializeToString())
        try:
            with graph._c_graph.get() as c_graph:  # noqa: SLF001
                results = c_api.TF_GraphImportGraphDefWithResults(c_graph, buffer, options)
            c_api_util.ScopedTFImportGraphDefResults(results)
        except tf.errors.InvalidArgumentError as fault:
            raise ValueError(str(fault)) from fault
        finally:
            c_api.TF_DeleteBuffer(buffer)
        _adopt_new_operations(graph)
    for each in function.from_library(graph_def.library) if graph_def.library.function else ():
        each.add_to_graph(graph)


def _adopt_new_operations(graph: tf.Graph) -> None:
    """Make Python's records of ops that the C API has added, which stand in no scope of any kind."""
    names = graph._names_in_use  # noqa: SLF001  # so that later ops get other names
    for operation in graph.new_operations():
        made = tf.Operation._from_c_op(operation, graph)  # noqa: SLF001  # as TensorFlow's importer
        made._colocation_code_locations = {}  # noqa: SLF001  # what error messages read
        names[made.name.lower()] = 1
