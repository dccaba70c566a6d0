"""The modes in which all clones update the same variables: `sync`, and `async` in one graph.

In `sync`, the gradients of all clones, at the same weights, are summed and applied once. In `async`, every
clone has a train op of its own, which applies the clone's gradient as soon as it is computed, whatever
other clones do meanwhile. The updates of one variable exclude each other by a mutex, so that each is made
as a whole. Gradients are computed, and weights are read, at the same time as updates. The global step
counts updates.
"""

from __future__ import annotations

from compiler.graph.assembly import Assembly
from compiler.graph.update.apply import step_scalars
from compiler.graph.update.statistics import MOVED, add_changes
from compiler.graph.update.step import Updates, build_update, count_update
from compiler.step.record import Run


def build_sync(assembly: Assembly) -> Updates:
    """Add aggregation, apply ops, moving averages and new statistics."""
    scalars = step_scalars(assembly)
    update = build_update(assembly, scalars)
    train_op = count_update(assembly, update.done)
    return Updates(train_op, scalars.learning_rates, gradients=update.gradients)


def build_async(assembly: Assembly) -> Updates:
    """Add an update of its own for each clone.

    Only clone 0 changes the statistics of batch normalization. All add what they have changed in sums.
    """
    ops, rates, updates = [], [], []
    for tower in assembly.towers:
        alone = assembly.alone(tower.tower.index)
        scalars = step_scalars(alone)
        updates.append(build_update(alone, scalars, () if tower.tower.index else MOVED))
        done = [*updates[-1].done, *add_changes(alone)]
        ops.append(count_update(alone, done, f"{alone.scope}/train_step"))
        rates.append(scalars.learning_rates)
    names = [each.name for each in ops]
    writer = assembly.ledger.writer("update")
    train_op = writer.after(writer.unique("train_step"), names, assembly.step_place)
    return Updates(Run(train_op), rates[0], tuple(ops), gradients=updates[0].gradients)
