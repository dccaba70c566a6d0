"""The threads of processes, which take tasks from their own queues and from those of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from attrs import define, field

from compiler.time.simulation.machines import EPSILON, Clock
from compiler.time.simulation.prepared import PreparedStep
from compiler.time.simulation.tasks import Active, Task, Thread


@define(eq=False)
class Threads:
    """The pools of threads, one for each process.

    Attributes:
        step: The step that they run.
        clock: The time.
        pools: By process: its threads.
        free: The threads that may take a task now.
    """

    step: PreparedStep
    clock: Clock
    pools: list[list[Thread]] = field(init=False)
    free: list[Thread] = field(factory=list)

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

    def give(self, tasks: Iterable[Task], thread: Thread | None, process: int) -> None:
        """Put tasks into the pool of a process: the queue of the thread that gives them, or another.

        Args:
            tasks: The tasks.
            thread: The thread that gives them, or None.
            process: The number of the process.
        """
        pool = self.pools[process]
        own = thread.queue if thread is not None and thread.process == process else None
        for task in tasks:
            if own is not None:
                own.appendleft(task)
            else:
                min(pool, key=lambda each: len(each.queue)).queue.append(task)
            for each in pool:
                if each.idle and not each.waking:
                    self._wake(each)
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

    def _wake(self, thread: Thread) -> None:
        """Let a thread without work look for some after the time that this takes."""
        if thread.idle and not thread.waking:
            thread.waking = True
            self.clock.at(self.clock.now + self.step.costs.hand_over, partial(self._look_for_work, thread))

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
