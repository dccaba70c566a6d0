"""The threads of processes, which take tasks from queues, and the tensors on their way between devices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from attrs import define, field

from compiler.time.simulation.machines import EPSILON, Active, Clock, Task, Thread
from compiler.time.simulation.prepared import PreparedStep, Send
from compiler.time.simulation.simulated import Hop
from compiler.topology import Device


@define(eq=False)
class Threads:
    """The pools of threads, one for each process."""

    step: PreparedStep
    clock: Clock
    pools: list[list[Thread]] = field(init=False)
    free: list[Thread] = field(factory=list)  # the threads that may take a task now

    def __attrs_post_init__(self) -> None:
        step = self.step
        self.pools = [[Thread(at, each) for each in range(step.pool)] for at in range(len(step.homes))]

    def start(self, tasks: Iterable[tuple[int, Task]]) -> None:
        """Put the first tasks of a run into the queues of threads in turn, and let all look for some."""
        for turn, (process, task) in enumerate(tasks):
            pool = self.pools[process]
            pool[turn % len(pool)].queue.append(task)
        for pool in self.pools:
            for thread in pool:
                if thread.queue:
                    thread.idle = False
                    self.free.append(thread)
                else:
                    self._wake(thread)

    def begin(self, process: int, then: Callable[[], None], copies: int | None = None) -> None:
        """Let a process, or several alike, run a graph again, which takes cores before its first op."""
        costs, now = self.step.costs, self.clock.now
        copies = self.step.copies[process] if copies is None else copies
        starting = Active(None, None, now, costs.step_start, costs.start_cores, 1.0, None, then, copies)
        self.clock.let_run(self.step.homes[process], starting)

    def give(self, tasks: Iterable[Task], thread: Thread | None, process: int) -> None:
        """Put tasks into the pool of a process: the queue of the thread that gives them, or another."""
        pool = self.pools[process]
        own = thread.queue if thread is not None and thread.process == process else None
        for task in tasks:
            if own is not None:
                own.appendleft(task)
            else:
                min(pool, key=lambda each: len(each.queue)).queue.append(task)
            for each in pool:
                if each.idle and not each.waking:
                    self._wake(each, self.step.rounds_of(task.op))
                    break

    def let_work(self) -> None:
        """Give each thread that is neither idle nor at work its next task."""
        if len(self.free) > 1:
            self.free.sort(key=lambda each: (each.process, each.number))
        for thread in self.free:
            if not (thread.idle or thread.busy):
                self._take(thread)
        self.free.clear()

    def _take(self, thread: Thread) -> None:
        """Let a thread take its next task, or have nothing to do."""
        if thread.inline:
            task = thread.inline.popleft()
        elif thread.queue:
            task = thread.queue.popleft()
        else:
            found = _of_others(self.pools[thread.process], thread)
            if found is None:
                thread.idle, thread.last = True, None
                return
            task = found
        thread.busy = True
        now, step = self.clock.now, self.step
        seconds, cores, crowding = step.demand_of(task.op)
        seconds *= task.run.times
        waited = thread.last is not None and task.ready < now - EPSILON
        after = thread.last if waited else task.cause
        machine, copies = step.homes[thread.process], step.copies[thread.process]
        active = Active(task, thread, now, seconds, cores, crowding, after, copies=copies)
        self.clock.let_run(machine, active)

    def _wake(self, thread: Thread, rounds: int = 1) -> None:
        """Let a thread without work look for some after the time that this takes, in each round of a loop."""
        if thread.idle and not thread.waking:
            thread.waking = True
            after = self.step.costs.hand_over * rounds
            self.clock.at(self.clock.now + after, partial(self._look_for_work, thread))

    def _look_for_work(self, thread: Thread) -> None:
        thread.waking = False
        thread.idle = False
        self.free.append(thread)


def _of_others(pool: Sequence[Thread], thread: Thread) -> Task | None:
    """Return the task that a thread takes from another one of its pool, if there is any."""
    for further in range(1, len(pool)):
        victim = pool[(thread.number + further) % len(pool)]
        if victim.queue:
            return victim.queue.pop()
    return None


# --- tensors on their way from one device to another, over links that carry one at a time -----------------


Arrival: TypeAlias = Callable[[Task, Send, int | None, Thread | None], None]
"""Is called when a tensor is there: with the task that sent it, the number of its hop, or None if it took no
time, and the thread that sent it, or None if a link brought it."""


@define(eq=False)
class Transfers:
    """What links carry, and what waits for them."""

    step: PreparedStep
    clock: Clock
    arrived: Arrival  # what is done with a tensor that is there
    hops: list[Hop] = field(factory=list)
    _free: dict[tuple[Device, Device], float] = field(factory=dict)  # from when on, if they take no cores
    _waiting: dict[tuple[Device, Device], deque[tuple[Task, Send]]] = field(factory=dict)

    def send(self, task: Task, number: int, thread: Thread | None) -> None:
        """Bring a tensor to another device."""
        send, clock, run = self.step.sends[number], self.clock, task.run
        link = send.link
        own = run.shut is not None and run.seen is not None and run.seen.abroad.host == send.target.host
        if own or not send.targets:  # it goes to processes that are not simulated, over links of their own
            cores = link.cores(send.size) / (1 if self.step.work.one_machine else 2)
            if cores > 0:
                taken, copies = send.seconds, send.times * run.times
                active = Active(task, None, clock.now, taken, cores, 1.0, None, copies=copies)
                clock.let_run(self.step.home_of(send.source), active)
            return
        if link.asking and number not in run.asked:
            run.early[number] = task
            return
        taken = send.seconds * run.times
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
        self._bring(task, send, start, start + taken + send.latency)

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
        size = send.size * send.rounds * task.run.times
        self.hops.append(Hop(send.source, send.target, send.tensor, size, start, end, task.cause))
        self.clock.at(end, lambda: self.arrived(task, send, hop, None))

    def _carry(self, pair: tuple[Device, Device]) -> None:
        """Let a link carry the first tensor that waits for it, which uses the cores of both ends."""
        task, send = self._waiting[pair][0]
        link, clock, step = send.link, self.clock, self.step
        machines = [step.home_of(each) for each in pair]
        began, taken = clock.now, send.seconds * task.run.times

        def ended() -> None:
            self._bring(task, send, began, clock.now + send.latency)
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
