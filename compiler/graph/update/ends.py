"""The ends of an update, joined on each task before the task with the global step waits for them.

A task that waits for an op of another task asks for it in a call of its own, which takes longer than most
updates of small variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.graph.assembly import Assembly


def join_ends(assembly: Assembly, done: Sequence[str]) -> list[str]:
    """Return the names of ops that run after all of `done`: only one on each task without the global step."""
    entries, home = assembly.ledger.entries, assembly.step_place.device.host
    by_task: dict[object, list[str]] = {}
    for each in done:
        by_task.setdefault(entries[each].device.host, []).append(each)
    ends, writer = by_task.pop(home, []), assembly.ledger.writer("update")
    for ops in by_task.values():
        if len(ops) == 1:
            ends += ops
            continue
        placed = entries[ops[0]].placed
        ends.append(writer.after(f"{assembly.scope}/ended/{placed.device.scope}", ops, placed))
    return ends
