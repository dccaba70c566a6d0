"""Asynchronous update in one graph: every clone has a train op of its own over shared variables.

Each op applies the clone's gradient when it is there, whatever the others do meanwhile. Fused apply ops hold
the lock of the variable; what takes several ops for one variable is kept apart by a mutex. The global step
counts updates.
"""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.update.apply import step_scalars
from compiler.graph.update.step import Updates, build_update, count_update


def build_async(assembly: Assembly) -> Updates:
    """Add the update of each clone by itself."""
    ops, rates = [], []
    for tower in assembly.towers:
        alone = assembly.alone(tower.tower.index)
        scalars = step_scalars(alone)
        done = build_update(alone, scalars)
        ops.append(count_update(alone, done, f"{alone.scope}/train_step"))
        rates.append(scalars["learning_rate"])
    with assembly.ledger.place(assembly.step_place, "update"):
        return Updates(tf.group(*ops, name="train_step"), rates[0], tuple(ops))
