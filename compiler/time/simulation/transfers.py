"""Tensors on their way from one device to another, over links that carry one at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from attrs import define, field

from compiler.time.simulation.machines import Clock
from compiler.time.simulation.prepared import PreparedStep, Send
from compiler.time.simulation.simulated import Hop
from compiler.time.simulation.tasks import Active, Task, Thread
from compiler.topology import Device

Arrival: TypeAlias = Callable[[Task, Send, int | None, Thread | None], None]
"""Is called when a tensor is there: with the task that sent it, the number of its hop, or None if it took no
time, and the thread that sent it, or None if a link brought it."""


@define(eq=False)
class Transfers:
    """What links carry, and what waits for them.

    Attributes:
        step: The step whose tensors they are.
        clock: The time.
        arrived: What is done with a tensor that is there.
        hops: What links have carried.
    """

    step: PreparedStep
    clock: Clock
    arrived: Arrival
    hops: list[Hop] = field(factory=list)
    _free: dict[tuple[Device, Device], float] = field(
        factory=dict
    )  # by link that takes no cores: from when on
    _waiting: dict[tuple[Device, Device], deque[tuple[Task, Send]]] = field(factory=dict)

    def send(self, task: Task, number: int, thread: Thread | None) -> None:
        """Bring a tensor to another device.

        Args:
            task: The task that sends it.
            number: The number of the send.
            thread: The thread of the task, or None.
        """
        send, clock, run = self.step.sends[number], self.clock, task.run
        link = send.link
        own = run.shut is not None and run.seen is not None and run.seen.abroad.host == send.target.host
        if own or not send.targets:  # it goes to processes that are not simulated, over links of their own
            cores = link.cores(send.size) / (1 if self.step.work.one_machine else 2)
            if cores > 0:
                taken, copies = link.seconds(send.size), send.times * run.times
                active = Active(task, None, clock.now, taken, cores, 1.0, None, copies=copies)
                clock.let_run(self.step.home_of(send.source), active)
            return
        if link.asking and number not in run.asked:
            run.early[number] = task
            return
        taken = link.seconds(send.size) * run.times
        if taken == 0 and link.latency == 0:
            self.arrived(task, send, None, thread)
            return
        pair = (send.source, send.target)
        if link.cores(send.size) > 0:
            self._waiting.setdefault(pair, deque()).append((task, send))
            if len(self._waiting[pair]) == 1:
                self._carry(pair)
            return
        start = max(clock.now, self._free.get(pair, 0.0))
        self._free[pair] = start + taken
        self._bring(task, send, start, start + taken + link.latency)

    def ask(self, task: Task, number: int) -> None:
        """Bring a tensor that has been asked for, if it is already there."""
        task.run.asked.add(number)
        early = task.run.early.pop(number, None)
        if early is not None:
            self.send(early, number, None)

    def _bring(self, task: Task, send: Send, start: float, end: float) -> None:
        """Note that a link carries a tensor, and let it arrive."""
        assert task.cause is not None
        hop = len(self.hops)
        size = send.size * task.run.times
        self.hops.append(Hop(send.source, send.target, send.tensor, size, start, end, task.cause))
        self.clock.at(end, lambda: self.arrived(task, send, hop, None))

    def _carry(self, pair: tuple[Device, Device]) -> None:
        """Let a link carry the first tensor that waits for it, which uses the cores of both ends."""
        task, send = self._waiting[pair][0]
        link, clock, step = send.link, self.clock, self.step
        machines = [step.home_of(each) for each in pair]
        began, taken = clock.now, link.seconds(send.size) * task.run.times

        def ended() -> None:
            self._bring(task, send, began, clock.now + link.latency)
            self._waiting[pair].popleft()
            if self._waiting[pair]:
                self._carry(pair)

        ends = (ended,) if machines[0] == machines[1] else (ended, nothing)
        of_source = step.work.alike.get(pair[0].host, 1)
        at_ends = (send.times * of_source,) if len(ends) == 1 else (send.times, of_source)
        for machine, end, copies in zip(machines, ends, at_ends, strict=False):
            cores = link.cores(send.size) / len(ends)
            clock.let_run(machine, Active(task, None, began, taken, cores, 1.0, None, end, copies))


def nothing() -> None:
    """Do nothing: what follows is done once for both machines of a transfer."""
