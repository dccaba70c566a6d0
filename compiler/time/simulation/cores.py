"""How the threads of a machine share its cores, and how fast each of them is meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.time.costs import Cost
from compiler.time.simulation.tasks import Active


def speeds(tasks: Sequence[Active], cores: int, awake: float = 1.0) -> list[float]:
    """Return how fast each task of a machine runs, compared with running alone.

    Args:
        tasks: The tasks that are active.
        cores: The cores of the machine.
        awake: The cores that a process uses at least while it runs an op. Its threads that have nothing to do
            look for work for a while before they sleep.
    """
    if len(tasks) == 1 and tasks[0].copies == 1:
        return [1.0]
    demand, alike = 0.0, True
    for each in tasks:
        demand += each.demand * each.copies
        alike = alike and each.crowding == 1.0
    asked = demand + _looking(tasks, awake) if awake > 1 else demand
    share = min(1.0, cores / asked) if asked else 1.0
    if alike:
        return [share] * len(tasks)  # none of them is slowed by others, apart from sharing the cores
    others = max(1, cores - 1)
    used = min(demand, cores)
    return [
        share / (1 + (each.crowding - 1) * min(1.0, max(0.0, used - each.demand) / others)) for each in tasks
    ]


def _looking(tasks: Sequence[Active], awake: float) -> float:
    """Return the cores that are used by threads which look for work, in all processes that run an op."""
    own: dict[int, tuple[float, int]] = {}
    for each in tasks:
        if each.thread is not None:
            before = own.get(each.thread.process, (0.0, 1))[0]
            own[each.thread.process] = before + each.demand, each.copies
    return sum(max(0.0, awake - demand) * copies for demand, copies in own.values())


def spread(cost: Cost, inner: int, cores: int) -> tuple[float, float]:
    """Return the seconds of an op with `inner` threads, and the cores that it uses meanwhile.

    Between one thread and one for each core, the time follows Amdahl's law: a part of the op is done by one
    thread, and the rest is shared. Such an op uses a core for each of its threads: those that are done with
    their part look for another one. Two ops at once then take as long as one after the other.

    Args:
        cost: What the op costs.
        inner: The threads that may work on it.
        cores: The cores of the machine.
    """
    if inner == 1 or cores == 1 or cost.alone <= 0:
        return cost.alone, 1.0
    if cost.wide >= cost.alone:
        return cost.wide, min(float(inner), cost.wide_cores)
    shared = (cost.alone - cost.wide) / (1 - 1 / cores)
    threads = min(inner, cores)
    return max(cost.wide, cost.alone - shared + shared / threads), float(threads)
