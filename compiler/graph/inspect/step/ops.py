"""The part of a graph that a training step runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from compiler.graph.dtypes import size_in_bytes
from compiler.graph.inspect.step.assumed import assumed_shape
from compiler.mapping.step_graph import Edge, StepGraph

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph

HANDLES = (tf.resource, tf.variant)


def step_graph(compiled: CompiledGraph) -> StepGraph:
    """Return the ops that the train op and the loss depend on, and the tensors between them."""
    ops = step_ops(compiled)
    edges = [_edge(compiled, tensor, op) for op in ops for tensor in op.inputs]
    return StepGraph(frozenset(op.name for op in ops), tuple(edges))


def step_ops(compiled: CompiledGraph, *, of_chief: bool = True) -> list[Any]:
    """Return the ops that a step runs, in any order.

    Args:
        compiled: The graph.
        of_chief: Whether to include what only the chief runs, if each worker has a graph of its own.
    """
    pending = [*step_ends(compiled, of_chief=of_chief)]
    exchange = compiled.exchange
    left_out = frozenset[str]() if of_chief or exchange is None else exchange.chief_ops
    seen: dict[str, Any] = {}
    while pending:
        op = pending.pop()
        if op.name not in seen and op.name not in left_out:
            seen[op.name] = op
            pending += [each.op for each in op.inputs]
            pending += op.control_inputs
    return list(seen.values())


def step_ends(compiled: CompiledGraph, *, of_chief: bool = True) -> tuple[Any, ...]:
    """Return the ops for which all other ops of a step are run.

    Args:
        compiled: The graph.
        of_chief: Whether to include what only the chief runs, if each worker has a graph of its own.
    """
    if compiled.exchange is not None:
        ends = compiled.exchange.ends
        return (compiled.data_loss.op, *ends) if of_chief else ends[:1]
    return (compiled.data_loss.op, *([compiled.train_op] if compiled.train_op is not None else []))


def _edge(compiled: CompiledGraph, tensor: Any, target: Any) -> Edge:
    known = assumed_shape(compiled, tensor)
    shape = known.as_list() if known.rank is not None else (None,)
    handle = tensor.dtype in HANDLES
    size = 0 if handle else size_in_bytes(shape, tensor.dtype.name)
    return Edge(tensor.op.name, target.name, tensor.name, size, handle)
