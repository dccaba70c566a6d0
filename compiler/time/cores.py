"""How the threads of a machine share its cores, and how fast each of them is meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.time.costs import Cost
from compiler.time.tasks import Active


def speeds(tasks: Sequence[Active], cores: int) -> list[float]:
    """Return how fast each task of a machine runs, compared with running alone."""
    if len(tasks) == 1:
        return [1.0]
    demand = sum(each.demand for each in tasks)
    if demand <= cores and all(each.crowding == 1.0 for each in tasks):
        return [1.0] * len(tasks)  # nothing slows them
    share = min(1.0, cores / demand) if demand else 1.0
    others = max(1, cores - 1)
    used = min(demand, cores)
    return [
        share / (1 + (each.crowding - 1) * min(1.0, max(0.0, used - each.demand) / others)) for each in tasks
    ]


def spread(cost: Cost, inner: int, cores: int, awake: float = 1.0) -> tuple[float, float]:
    """Return the seconds of an op with `inner` threads, and the cores that it uses meanwhile.

    Between one thread and one for each core, the time follows Amdahl's law: a part of the op is done by one
    thread, and the rest is shared.

    Args:
        cost: What the op costs.
        inner: The threads that may work on it.
        cores: The cores of the machine.
        awake: The cores that a process uses, as a mean, if it runs one op after the other with a thread for
            each core. Threads that wait for their part of an op look for it for a while before they sleep,
            and so they use more than the op itself.
    """
    if inner == 1 or cores == 1 or cost.alone <= 0:
        return cost.alone, 1.0
    awake = min(float(inner), max(1.0, awake))
    if cost.wide >= cost.alone:
        return cost.wide, awake
    shared = (cost.alone - cost.wide) / (1 - 1 / cores)
    wall = max(cost.wide, cost.alone - shared + shared / min(inner, cores))
    return wall, min(float(cores), max(awake, cost.alone / wall))
