"""Synchronous update: the gradients of all clones, at the same weights, are summed and applied once."""

from __future__ import annotations

from compiler.graph.assembly import Assembly
from compiler.graph.update.apply import step_scalars
from compiler.graph.update.step import Updates, build_update, count_update


def build_sync(assembly: Assembly) -> Updates:
    """Add aggregation, apply ops, moving averages and new statistics."""
    scalars = step_scalars(assembly)
    update = build_update(assembly, scalars)
    train_op = count_update(assembly, update.done)
    return Updates(train_op, scalars.learning_rates, gradients=update.gradients)
