"""The machines of a simulation: how tasks share their cores, what they have left, and what happens next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from attrs import define, field

from compiler.time.costs import Cost
from compiler.time.simulation.tasks import Active

EPSILON = 1e-12
"""Seconds that are no more than what rounding leaves."""


@define(eq=False)
class Machine:
    """The tasks that run on a machine at the same time.

    Attributes:
        cores: Its cores.
        awake: The cores that a process uses at least while it runs an op.
        tasks: What runs now.
    """

    cores: int
    awake: float
    tasks: list[Active] = field(factory=list)
    _speeds: list[float] = field(factory=list)  # since the last look ahead, as of `tasks` then
    _since: float = 0.0  # until when it is known what the tasks have left

    def begin(self, task: Active, now: float) -> None:
        """Let another task run."""
        self._let_time_pass(now)
        self.tasks.append(task)

    def next_end(self, now: float) -> float:
        """Return when the next task ends if no other begins; infinity if none runs."""
        self._speeds = speeds(self.tasks, self.cores, self.awake) if self.tasks else []
        left = zip(self.tasks, self._speeds, strict=True)
        return min([now + each.left / speed if each.left > 0 else now for each, speed in left], default=inf)

    def take_ended(self, now: float) -> list[Active]:
        """Remove the tasks that end now.

        Returns:
            These tasks, at least one.
        """
        self._let_time_pass(now)
        ended = [each for each in self.tasks if each.left <= EPSILON]
        if not ended:
            ended = [min(self.tasks, key=lambda each: each.left)]
        for each in ended:
            self.tasks.remove(each)
        return ended

    def _let_time_pass(self, now: float) -> None:
        """Note what the tasks have left now, before others come or some go."""
        passed = now - self._since
        if passed > 0:
            for each, speed in zip(self.tasks, self._speeds, strict=True):
                each.left -= passed * speed
            self._since = now


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
    """
    if inner == 1 or cores == 1 or cost.alone <= 0:
        return cost.alone, 1.0
    if cost.wide >= cost.alone:
        return cost.wide, min(float(inner), cost.wide_cores)
    shared = (cost.alone - cost.wide) / (1 - 1 / cores)
    threads = min(inner, cores)
    return max(cost.wide, cost.alone - shared + shared / threads), float(threads)


@define(eq=False)
class Clock:
    """What the time is, and what happens when.

    Attributes:
        machines: The machines, whose tasks end at times that depend on each other.
        now: The time, in seconds.
    """

    machines: Sequence[Machine]
    now: float = 0.0
    _order: int = 0
    _events: list[tuple[float, int, Callable[[], None]]] = field(factory=list)
    _ends: list[float] = field(init=False)  # by machine: when the next of its tasks ends
    _changed: set[int] = field(factory=set)  # the machines of which that has to be found anew

    def __attrs_post_init__(self) -> None:
        self._ends = [inf] * len(self.machines)

    def at(self, when: float, event: Callable[[], None]) -> None:
        """Let something happen at a time; what was noted first comes first.

        Args:
            when: The time, in seconds.
            event: What is done then.
        """
        self._order += 1
        heappush(self._events, (when, self._order, event))

    def let_run(self, machine: int, task: Active) -> None:
        """Let a machine run another task from now on."""
        self.machines[machine].begin(task, self.now)
        self._changed.add(machine)

    def go_on(self) -> Sequence[Active] | None:
        """Go on to the next thing that happens, and do it.

        Returns:
            The tasks of a machine that end then, which may be none; None if nothing is left to happen.
        """
        events, ends = self._events, self._ends
        if self._changed:
            for machine in self._changed:
                ends[machine] = self.machines[machine].next_end(self.now)
            self._changed.clear()
        ending = min(ends)
        if events and events[0][0] <= ending:
            self.now, _, event = heappop(events)
            event()
            return ()
        if ending == inf:
            return None
        self.now = ending
        machine = ends.index(ending)
        self._changed.add(machine)
        return self.machines[machine].take_ended(ending)
