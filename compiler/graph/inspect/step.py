"""Which part of a graph a training step runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from compiler.graph.dtypes import size_in_bytes
from compiler.mapping.step_graph import Edge, StepGraph

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph

HANDLES = (tf.resource, tf.variant)


def step_graph(compiled: CompiledGraph) -> StepGraph:
    """Return the ops that the train op and the loss depend on, and the tensors between them."""
    ops = step_ops(compiled)
    edges = [_edge(tensor, op) for op in ops for tensor in op.inputs]
    return StepGraph(frozenset(op.name for op in ops), tuple(edges))


def step_ops(compiled: CompiledGraph, *, member: bool = False) -> list[Any]:
    """Return the ops that a step runs, in no order of meaning; of a `member` without the chief's part."""
    pending = [*step_ends(compiled, member=member)]
    seen: dict[str, Any] = {}
    while pending:
        op = pending.pop()
        if op.name not in seen:
            seen[op.name] = op
            pending += [each.op for each in op.inputs]
            pending += op.control_inputs
    return list(seen.values())


def step_ends(compiled: CompiledGraph, *, member: bool = False) -> tuple[Any, ...]:
    """Return the ops that all others of a step are for."""
    if compiled.exchange is not None:
        ends = compiled.exchange.ends
        return ends[:1] if member else (compiled.data_loss.op, *ends)
    return (compiled.data_loss.op, *([compiled.train_op] if compiled.train_op is not None else []))


def _edge(tensor: Any, target: Any) -> Edge:
    shape = tensor.shape.as_list() if tensor.shape.rank is not None else (None,)
    handle = tensor.dtype in HANDLES
    size = 0 if handle else size_in_bytes(shape, tensor.dtype.name)
    return Edge(tensor.op.name, target.name, tensor.name, size, handle)
