"""Synchronous update: every clone's gradient at the same weights, summed, applied once."""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.update.apply import apply_gradients, step_scalars, update_statistics
from compiler.graph.update.gradients import regularize_gradients, sum_gradients


def build_sync(assembly: Assembly) -> tf.Operation:
    """Add aggregation, apply ops, moving averages and new statistics; return the op that does a step."""
    scalars = step_scalars(assembly)
    gradients = regularize_gradients(assembly, sum_gradients(assembly))
    done = apply_gradients(assembly, gradients, scalars) + update_statistics(assembly)
    with assembly.ledger.place(assembly.step_place, "update"), tf.control_dependencies(done):
        return tf.raw_ops.AssignAddVariableOp(
            resource=assembly.global_step.handle, value=tf.constant(1, tf.int64), name="train_step"
        )
