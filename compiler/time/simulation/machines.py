"""The machines of a simulation: the tasks on them, how these share the cores, and what happens next."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

from attrs import define, field, frozen

from compiler.time.costs import Cost
from compiler.topology import Host

EPSILON = 1e-12
"""Seconds that are no more than what rounding leaves."""


@define(eq=False)
class Machine:
    """The tasks that run on a machine at the same time."""

    cores: int
    awake: float  # the cores that a process uses at least while it runs an op
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
        """Remove the tasks that end now, at least one, and return them."""
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
    """What the time is, and what happens when."""

    machines: Sequence[Machine]  # the machines, whose tasks end at times that depend on each other
    now: float = 0.0
    _order: int = 0
    _events: list[tuple[float, int, Callable[[], None]]] = field(factory=list)
    _ends: list[float] = field(init=False)  # by machine: when the next of its tasks ends
    _changed: set[int] = field(factory=set)  # the machines of which that has to be found anew

    def __attrs_post_init__(self) -> None:
        self._ends = [inf] * len(self.machines)

    def at(self, when: float, event: Callable[[], None]) -> None:
        """Let something happen at a time; what was noted first comes first."""
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


# --- what a simulation keeps of a step while it runs: threads with their queues, and what is on them ------


@define(eq=False)
class Thread:
    """A thread of the pool of a process."""

    process: int
    number: int
    # The tasks that were given to the thread; a thread without work may take the last of them.
    queue: deque[Task] = field(factory=deque)
    # The tasks that the thread itself does next, which no other thread takes.
    inline: deque[Task] = field(factory=deque)
    idle: bool = True  # whether the thread has nothing to do, and sleeps
    busy: bool = False
    waking: bool = False  # whether the thread has been woken, and has not begun to look for work
    last: int | None = None  # the number of the bar that the thread ran last


@define(eq=False)
class Task:
    """An op of one run that is to be executed."""

    run: Run
    # The number of the op; numbers from the number of ops on are those of sends, and those below 0 of the
    # receivers of sends, which ask for the tensors: -1 for the first send.
    op: int
    ready: float  # the time in seconds at which its last input was there
    # The number of the bar that made this input, or None if the op waits for nothing.
    cause: int | None = None
    over: int | None = None  # the number of the hop that brought this input from another device, or None


@define(eq=False)
class Active:
    """A task on a thread, or, without one, a tensor that a link carries or the start of a run."""

    task: Task | None  # the task, or None for the start of a run
    thread: Thread | None  # the thread, or None
    start: float  # the time in seconds at which it began
    left: float  # the seconds that it still takes if nothing else uses the machine
    demand: float  # the cores that it uses if nothing else does
    crowding: float  # how many times as long it takes if all cores are busy with other tasks
    began_after: int | None  # the number of the bar after which it could begin, or None
    ended: Callable[[], None] = lambda: None  # what is done at its end if there is no thread
    copies: int = 1  # how many tasks of the machine it stands for, all of which run at the same time


@define(eq=False)
class Run:
    """One run of a graph by a session: a step, or an update of one clone."""

    ops: Sequence[int]  # the numbers of the ops that it runs
    # For each op of the graph, the number of inputs that are not there yet.
    waiting: list[int] | defaultdict[int, int]
    left: int  # how many of the ops have not ended
    number: int  # the number of the run among those that go on at the same time
    done: list[float] = field(factory=list)  # the times in seconds at which its rounds ended
    # The numbers of the sends whose receivers have asked for the tensor in this round.
    asked: set[int] = field(factory=set)
    # The tensors that were sent before they were asked for, by the numbers of their sends.
    early: dict[int, Task] = field(factory=dict)
    # How many clones make the run, each for itself, so that its ops take as many times as long.
    times: int = 1
    # What is seen of the run, if its clone stands for others; of the run of such others, what was seen of the
    # clone that stands for them.
    seen: Seen | None = None
    shut: list[int] | None = None  # if it is of such others, how many ops each gate still waits for


# --- what is seen of a clone that stands for others, which are not simulated (`others.py`) ----------------


@frozen(eq=False)
class Gate:
    """Ops that get something from the devices of the clone itself, which they wait for."""

    needed: frozenset[int]  # the ops on other devices that the clone waits for before it can make that
    ops: tuple[int, ...]


@frozen(eq=False)
class Abroad:
    """What a clone does on the devices of other processes."""

    host: Host
    count: int  # for how many other clones this one stands
    ops: tuple[int, ...] = field(repr=False)  # the numbers of the ops there
    waits: dict[int, int] = field(repr=False)  # for each of them, how many inputs it has from the others
    gates: tuple[Gate, ...] = field(repr=False)  # what some of them get from the clone
    opened: dict[int, list[int]] = field(repr=False)  # by op: the numbers of the gates that wait for it


@define(eq=False)
class Seen:
    """What was seen of the clone that stands for others, with times in seconds."""

    abroad: Abroad  # what it does on the devices of other processes
    began: float = 0.0  # when its round began
    done: dict[int, float] = field(factory=dict)  # when each of its ops there was done in this round
    there: dict[int, float] = field(factory=dict)  # when each of these had all that it gets from the clone
    # How long the clone took for each of these things, in its last round.
    delays: dict[int, float] = field(factory=dict)
    ended: float = 0.0  # when its last round ended
    rest: float = 0.0  # how long that was after the last of its ops there was done
    pause: float = 0.0  # how long it took from the end of that round to the beginning of the next one

    def begin(self, now: float) -> None:
        """Note that a round begins; `now` is the time in seconds."""
        self.pause = now - self.ended
        self.began = now
        self.done.clear()
        self.there.clear()

    def end(self, now: float) -> None:
        """Note that a round has ended; `now` is the time in seconds."""
        self.ended = now
        self.rest = now - max(self.done.values(), default=self.began)
        for gate in self.abroad.gates:
            since = max((self.done[each] for each in gate.needed), default=self.began)
            for op in gate.ops:
                self.delays[op] = max(0.0, self.there[op] - since)
