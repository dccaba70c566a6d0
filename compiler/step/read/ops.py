"""The ops that a step runs, and the tensors between them."""

from __future__ import annotations

from compiler.mapping.records import Edge, StepGraph
from compiler.step.record import HANDLES, Op
from compiler.step.step import Step


def step_graph(step: Step) -> StepGraph:
    """Return the ops that a step runs, and the tensors between them."""
    ops = step_ops(step)
    edges = (
        Edge(
            tensor.op,
            op.name,
            tensor.name,
            0 if tensor.dtype in HANDLES else tensor.bytes,
            tensor.dtype in HANDLES,
        )
        for op in ops
        for tensor in op.inputs
    )
    return StepGraph(frozenset(op.name for op in ops), tuple(edges))


def step_ops(step: Step, *, of_chief: bool = True) -> list[Op]:
    """Return the ops that a step runs, in any order.

    Args:
        step: The step.
        of_chief: Whether to include what only the chief runs, if each worker has a graph of its own.
    """
    if of_chief or not step.ends.of_worker:
        return step.run
    return step.needed_for(step.ends.of_worker, step.ends.only_chief)
