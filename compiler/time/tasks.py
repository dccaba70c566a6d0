"""What a simulation keeps of a step while it runs: threads with their queues, and what is on them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from attrs import define, field

from compiler.topology import Device


@define(eq=False)
class Send:
    """Hands a tensor of an op to the ops on another device that wait for it."""

    source: Device
    target: Device
    tensor: str
    size: int
    targets: list[int] = field(factory=list)


@define(eq=False)
class Thread:
    """A thread of the pool of a process."""

    process: int
    number: int
    queue: deque[Task] = field(factory=deque)
    inline: deque[Task] = field(factory=deque)
    idle: bool = True
    busy: bool = False  # a task of it is active
    waking: bool = False
    last: int | None = None  # the bar that it ran last


@define(eq=False)
class Task:
    """An op of one run that is to be executed."""

    run: Run
    op: int  # or, from the number of ops on, a send
    ready: float
    cause: int | None = None
    over: int | None = None


@define(eq=False)
class Active:
    """A task on a thread, or, without one, a tensor that a link carries or the start of a run."""

    task: Task | None
    thread: Thread | None
    start: float
    left: float  # seconds, at full speed
    demand: float
    crowding: float
    began_after: int | None
    ended: Callable[[], None] = lambda: None  # what follows if there is no thread


@define(eq=False)
class Run:
    """One run of a graph by a session: a step, or an update of one clone."""

    ops: Sequence[int]
    waiting: list[int]
    left: int
    number: int
    rounds: int
    done: list[float] = field(factory=list)
    polled: dict[int, float] = field(factory=dict)  # when an op that polls began to
