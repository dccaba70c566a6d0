"""Every name of TensorFlow that is used here although it is not public, and what it is used for.

No other module imports `tensorflow.python` or `tensorflow.core`, or touches an attribute of TensorFlow's that
begins with an underscore. `tests/compiler/graph/adapters` lists the names, so that a release of TensorFlow
without one of them fails there and says which.
"""

# ruff: noqa: SLF001  # this is what the module is for

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

# The messages with which a variable and a run with fixed feeds are described.
from tensorflow.core.framework.variable_pb2 import VariableDef
from tensorflow.core.protobuf.config_pb2 import CallableOptions

# The C functions that add nodes to a graph, and the Python owners of what these functions allocate.
from tensorflow.python.client.pywrap_tf_session import (
    TF_DeleteBuffer,
    TF_GraphImportGraphDefWithResults,
    TF_ImportGraphDefOptionsSetPrefix,
    TF_ImportGraphDefOptionsSetUniquifyNames,
    TF_ImportGraphDefOptionsSetValidateColocationConstraints,
    TF_NewBufferFromString,
)

# The trace of a step in the format of chrome://tracing.
from tensorflow.python.client.timeline import Timeline

# The state of TensorFlow in a thread.
from tensorflow.python.eager.context import context
from tensorflow.python.framework.c_api_util import (
    ScopedTFImportGraphDefOptions,
    ScopedTFImportGraphDefResults,
)

# Whether a process only runs ops that give the same bits every time. Only the setter is public.
from tensorflow.python.framework.config import is_op_determinism_enabled

# The functions of a library, made ready to be added to a graph.
from tensorflow.python.framework.function import from_library

# What is called for each op that a thread makes.
from tensorflow.python.framework.op_callbacks import add_op_callback, clear_op_callbacks

# The definition of a type of op: names and types of inputs, outputs and attributes.
from tensorflow.python.framework.op_def_registry import get as op_definition

# A variable from its description, for ops that are already in the graph.
from tensorflow.python.ops.resource_variable_ops import ResourceVariable


@contextmanager
def without_op_callbacks() -> Iterator[None]:
    """Let no op that is made get others beside it, as `tf.debugging.enable_check_numerics()` asks for.

    A step is made of the ops that it is described by, and a run looks for NaN by itself.
    """
    before = list(context().op_callbacks)
    clear_op_callbacks()
    try:
        yield
    finally:
        clear_op_callbacks()
        for each in before:
            add_op_callback(each)


def add_nodes(graph: tf.Graph, graph_def: Any) -> None:
    """Add the nodes of a GraphDef to a graph by TensorFlow's C interface.

    Python's records of the new ops are made without any scope: they have no control flow context, and their
    devices are those of the nodes.

    Raises:
        tf.errors.InvalidArgumentError: A node is not well formed.
    """
    scoped = ScopedTFImportGraphDefOptions()
    options = scoped.options
    TF_ImportGraphDefOptionsSetPrefix(options, "")
    TF_ImportGraphDefOptionsSetUniquifyNames(options, False)
    TF_ImportGraphDefOptionsSetValidateColocationConstraints(options, False)
    with graph._mutation_lock():  # as TensorFlow's importer: no session may run in between
        buffer = TF_NewBufferFromString(graph_def.SerializeToString())
        try:
            with graph._c_graph.get() as c_graph:
                results = TF_GraphImportGraphDefWithResults(c_graph, buffer, options)
            ScopedTFImportGraphDefResults(results)
        finally:
            TF_DeleteBuffer(buffer)
        names = graph._names_in_use  # so that later ops get other names
        for operation in graph.new_operations():
            made = tf.Operation._from_c_op(operation, graph)
            made._colocation_code_locations = {}  # which TensorFlow's error messages read
            names[made.name.lower()] = 1


def python_functions(graph: tf.Graph) -> list[Any]:
    """Return the Python functions that ops of a graph call, which last as long as something keeps them."""
    return getattr(graph, "_py_funcs_used_in_graph", [])


def set_device(op: tf.Operation, device: str) -> None:
    """Move an op to a device, as a device function does while the op is made."""
    op._set_device(device)


def add_control_input(op: tf.Operation, before: tf.Operation) -> None:
    """Let an op that is already in its graph wait for another one."""
    op._add_control_input(before)


def iterator_resource(iterator: Any) -> tf.Tensor:
    """Return the handle of an iterator, which another graph's `MakeIterator` takes by its name."""
    return iterator._iterator_resource


def variant_of(dataset: tf.data.Dataset) -> tf.Tensor:
    """Return the tensor that stands for a dataset in a graph."""
    return dataset._variant_tensor


def fed_callable(
    session: Any,
    fetches: Sequence[tf.Tensor | tf.Operation],
    feeds: Sequence[tf.Tensor],
    replaced: Mapping[tf.Tensor, tf.Tensor],
) -> Callable[..., list[Any]]:
    """Return a function that runs a session with values for some tensors, and knows beforehand how.

    `Session.make_callable` finds out anew in each run what is fed and fetched, if there are feeds.

    Args:
        session: The session.
        fetches: The tensors and ops that are run.
        feeds: The tensors that get values.
        replaced: The tensors in whose place others of the graph are put, which are the values here.

    Returns:
        A function of one value for each of `feeds` that returns the values of the tensors in `fetches`. It
        raises what `Session.run` raises.
    """
    options = CallableOptions()
    options.feed.extend(each.name for each in feeds)
    options.fetch.extend(each.name for each in fetches if isinstance(each, tf.Tensor))
    options.target.extend(each.name for each in fetches if isinstance(each, tf.Operation))
    for each, other in replaced.items():
        options.tensor_connection.add(from_tensor=other.name, to_tensor=each.name)
    dtypes = [each.dtype.as_numpy_dtype for each in feeds]
    call = session._do_call(session._make_callable_from_options, options)

    def run(*values: Any) -> list[Any]:
        arrays = (np.asarray(value, dtype) for value, dtype in zip(values, dtypes, strict=True))
        return session._do_call(call, *arrays)

    return run
