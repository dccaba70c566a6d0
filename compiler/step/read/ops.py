"""The ops that a step runs, and the tensors between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

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
        return needed_for(step, step.ends.all)
    return needed_for(step, step.ends.of_worker, step.ends.only_chief)


def needed_for(step: Step, ends: Iterable[str], left_out: Collection[str] = ()) -> list[Op]:
    """Return the ops that run if some are run, in any order.

    Args:
        step: The step.
        ends: The names of the ops that are run.
        left_out: The names of ops that are not run all the same, nor what only they need.
    """
    pending, seen = [*ends], dict[str, Op]()
    while pending:
        name = pending.pop()
        if name not in seen and name not in left_out:
            op = seen[name] = step.ops[name]
            pending += [each.op for each in op.inputs]
            pending += op.waits
    return list(seen.values())
