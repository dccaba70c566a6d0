"""The ends of an update, joined on each task before the task with the global step waits for them.

A task that waits for an op of another task asks for it in a call of its own, which takes longer than most
updates of small variables.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from compiler.graph.assembly import Assembly


def join_ends(assembly: Assembly, done: Sequence[tf.Operation]) -> list[tf.Operation]:
    """Return ops that run after all of `done`: only one on each task without the global step.

    Args:
        assembly: The graph under construction.
        done: The ops that end the updates of the variables.
    """
    ledger, home = assembly.ledger, assembly.step_place.device.host
    by_task: dict[object, list[tf.Operation]] = {}
    for each in done:
        by_task.setdefault(ledger.entries[each.name].device.host, []).append(each)
    ends = by_task.pop(home, [])
    for ops in by_task.values():
        if len(ops) == 1:
            ends += ops
            continue
        placed = ledger.entries[ops[0].name].placed
        with ledger.place(placed, "update"), tf.control_dependencies(ops):
            ends.append(tf.no_op(name=f"{assembly.scope}/ended/{placed.device.scope}"))
    return ends
