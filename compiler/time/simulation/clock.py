"""The time of a simulation: what happens next, and when the tasks of machines end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from attrs import define, field

from compiler.time.simulation.machines import Machine
from compiler.time.simulation.tasks import Active


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
        """Let a machine run another task from now on.

        Args:
            machine: The number of the machine.
            task: The task.
        """
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
