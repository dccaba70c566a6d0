"""What a simulation keeps of a step while it runs: threads with their queues, and what is on them."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from attrs import define, field

from compiler.time.simulation.others import Seen


@define(eq=False)
class Thread:
    """A thread of the pool of a process.

    Attributes:
        process: The number of the process.
        number: The number of the thread in the pool.
        queue: The tasks that were given to the thread; a thread without work may take the last of them.
        inline: The tasks that the thread itself does next, which no other thread takes.
        idle: Whether the thread has nothing to do, and sleeps.
        busy: Whether a task of the thread is active.
        waking: Whether the thread has been woken, and has not begun to look for work.
        last: The number of the bar that the thread ran last.
    """

    process: int
    number: int
    queue: deque[Task] = field(factory=deque)
    inline: deque[Task] = field(factory=deque)
    idle: bool = True
    busy: bool = False
    waking: bool = False
    last: int | None = None


@define(eq=False)
class Task:
    """An op of one run that is to be executed.

    Attributes:
        run: The run.
        op: The number of the op; numbers from the number of ops on are those of sends, and those
            below 0 of the receivers of sends, which ask for the tensors: -1 for the first send.
        ready: The time in seconds at which its last input was there.
        cause: The number of the bar that made this input, or None if the op waits for nothing.
        over: The number of the hop that brought this input from another device, or None.
    """

    run: Run
    op: int
    ready: float
    cause: int | None = None
    over: int | None = None


@define(eq=False)
class Active:
    """A task on a thread, or, without one, a tensor that a link carries or the start of a run.

    Attributes:
        task: The task, or None for the start of a run.
        thread: The thread, or None.
        start: The time in seconds at which it began.
        left: The seconds that it still takes if nothing else uses the machine.
        demand: The cores that it uses if nothing else does.
        crowding: How many times as long it takes if all cores are busy with other tasks.
        began_after: The number of the bar after which it could begin, or None.
        ended: What is done at its end if there is no thread.
        copies: How many tasks of the machine it stands for, all of which run at the same time.
    """

    task: Task | None
    thread: Thread | None
    start: float
    left: float
    demand: float
    crowding: float
    began_after: int | None
    ended: Callable[[], None] = lambda: None
    copies: int = 1


@define(eq=False)
class Run:
    """One run of a graph by a session: a step, or an update of one clone.

    Attributes:
        ops: The numbers of the ops that it runs.
        waiting: For each op of the graph, the number of inputs that are not there yet.
        left: How many of the ops have not ended.
        number: The number of the run among those that go on at the same time.
        done: The times in seconds at which its rounds ended.
        polled: For each op that polls, the time in seconds at which it began to.
        asked: The numbers of the sends whose receivers have asked for the tensor in this round.
        early: The tensors that were sent before they were asked for, by the numbers of their sends.
        times: How many clones make the run, each for itself, so that its ops take as many times as long.
        seen: What is seen of the run, if its clone stands for others; of the run of such others, what was
            seen of the clone that stands for them.
        shut: If it is of such others, how many ops each gate still waits for.
    """

    ops: Sequence[int]
    waiting: list[int] | defaultdict[int, int]
    left: int
    number: int
    done: list[float] = field(factory=list)
    polled: dict[int, float] = field(factory=dict)
    asked: set[int] = field(factory=set)
    early: dict[int, Task] = field(factory=dict)
    times: int = 1
    seen: Seen | None = None
    shut: list[int] | None = None
