"""A machine, and what its tasks have left while they share its cores."""

from __future__ import annotations

from math import inf

from attrs import define, field

from compiler.time.simulation.cores import speeds
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
        """Let another task run.

        Args:
            task: The task.
            now: The time.
        """
        self._let_time_pass(now)
        self.tasks.append(task)

    def next_end(self, now: float) -> float:
        """Return when the next task ends if no other begins; infinity if none runs.

        Args:
            now: The time, from which on the tasks are as fast as they are now.
        """
        self._speeds = speeds(self.tasks, self.cores, self.awake) if self.tasks else []
        left = zip(self.tasks, self._speeds, strict=True)
        return min([now + each.left / speed if each.left > 0 else now for each, speed in left], default=inf)

    def take_ended(self, now: float) -> list[Active]:
        """Remove the tasks that end now.

        Args:
            now: The time that `next_end` has returned.

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
