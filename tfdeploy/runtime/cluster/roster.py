"""Who trains, if workers come and go: the chief calls a roster for each generation, and all others read it.

Every worker says at its own server whether it could train, and which roster it knows. The first on a roster
is the chief. Between two steps, or when a step cannot end, the chief looks who is there and calls a new one;
every worker makes the graph of those who are on it, and all meet as after any break. If the chief is gone,
the next on the newest roster is the chief from then on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.compatibility import changing_job
from compiler.graph.compiled import CompiledGraph
from compiler.graph.storage.saving import Saving, add_saving
from compiler.graph.tower.traces import Traces
from compiler.graph.workers.meeting import OPEN
from compiler.plan import Plan
from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors import cluster as errors
from dsl.errors.wording import joined
from dsl.files.typed_json import Count, JsonRecord
from tfdeploy.data import Stream
from tfdeploy.runtime.cluster.identity import probe, read_text, write_text
from tfdeploy.runtime.membership.addresses import Membership, Task
from tfdeploy.runtime.plans import folder_of, graph_of, plan_of
from tfdeploy.runtime.session.data import attach_part
from tfdeploy.runtime.show.reporting import Reporter, duration
from tfdeploy.runtime.stop import alongside

WORD = "tfdeploy/word"
"""The name of the text at the server of a worker."""

LOOK_EVERY, PATIENCE, SAY_AFTER = 0.25, 2.0, 5.0
ASK_EVERY, TO_PREPARE = 0.5, 1.5
"""The seconds after which a worker asks for the next generation, and for which one that leaves stays."""

SILENT = 10.0
"""The seconds after which a worker counts as gone that does not answer although its process may live."""

TO_BEGIN = 30.0
"""The seconds after which another worker than the first begins the training, if the first is not there."""

APART = 1 << 32
"""What the numbers of two rosters differ by at least: more than the steps of a generation."""


@frozen
class Roster(JsonRecord):
    """Who trains in a generation."""

    number: Count
    members: tuple[Count, ...]  # the numbers of the tasks that train; the first is the chief
    seed: Count
    over: bool = False
    # Who will probably train in the next generation; nobody if that is not known.
    next: tuple[Count, ...] = ()


@frozen
class Word(JsonRecord):
    """What a worker says at its server."""

    ready: bool = False
    roster: Roster | None = None  # the newest roster that it has entered; None before the first


def _number(word: Word) -> int:
    return 0 if word.roster is None else word.roster.number


@define
class Prepared:
    """A graph for a group of workers, with all that training needs but a session."""

    compiled: CompiledGraph
    saving: Saving
    starters: dict[Stream, Any] = field(factory=dict)


class Changed(tf.errors.AbortedError):  # type: ignore[misc] # TensorFlow has no types
    """The workers of the generation are not those that there are any more."""

    def __init__(self) -> None:
        super().__init__(None, None, "workers come or go")


def order(chief: int, others: Iterable[int]) -> tuple[int, ...]:
    """Return a chief and other tasks in the order of a roster, so that there is one graph for each group."""
    return (chief, *sorted({*others} - {chief}))


class Replaced(Exception):  # noqa: N818 it is no fault
    """Another worker has become the chief in the place of this one."""


@define
class Crew:
    """The tasks that may train, as one of them sees them."""

    spec: ir.Spec  # the spec, a job of which has a number of tasks that changes
    membership: Membership
    reporter: Reporter = field(repr=False)
    # Returns where sessions of a graph are opened, for a membership with those who are there.
    make_target: Callable[[CompiledGraph, Membership], Any] = field(repr=False)
    roster: Roster | None = None  # the newest roster; None before the first
    heard: float = 0.0  # when the chief has answered last (`time.monotonic()`)
    led: bool = False  # whether the chief of the newest roster trains, as far as this worker has seen
    changed: bool = False  # whether workers have come or gone since then, on the chief
    # The chief's view of the workers of the generation; None before it has one.
    group: Any = field(default=None, repr=False)
    _traces: Traces = field(init=False, repr=False)
    stream: Stream | None = field(default=None, repr=False)
    _graphs: dict[tuple[int, ...], Prepared] = field(factory=dict, repr=False)
    _stepped: float | None = None  # when the last step was made
    _asked: float = 0.0  # when the roster was read last
    _probed: float = 0.0  # when it was seen last whether all of the generation are there
    _stale: int = -1  # the generation after which another one is known
    _prepared: float = 0.0  # when the roster was read last for the next generation
    _one_graph: threading.Lock = field(factory=threading.Lock, init=False, repr=False)
    _told: int = 0  # the roster that has been told of
    _ready: bool = False
    _newest: Roster | None = None  # that is known, also of a generation without this worker
    _began: float = field(factory=time.monotonic, init=False)
    _silent: dict[int, float] = field(factory=dict, init=False, repr=False)  # since when tasks do not answer

    def __attrs_post_init__(self) -> None:
        self._traces = Traces(str(folder_of(self.spec)))

    @property
    def job(self) -> ir.Job:
        """The job whose tasks come and go."""
        found = changing_job(self.spec)
        assert found is not None
        return found

    @property
    def least(self) -> int:
        """The fewest workers that train."""
        return self.job.least or self.job.tasks

    @property
    def own(self) -> int:
        """The number of this worker's task."""
        return self.membership.own.index

    @property
    def leads(self) -> bool:
        """Whether this worker is the chief of the newest roster."""
        return self.roster is not None and self.roster.members[0] == self.own

    @property
    def generation(self) -> int:
        """The number of the newest roster; 0 before the first."""
        return 0 if self.roster is None else self.roster.number

    def _address(self, task: int) -> str:
        return self.membership.cluster.address(Task(self.job.name, task))

    def _ref(self, task: int) -> str:
        return Task(self.job.name, task).ref

    # --- graphs -------------------------------------------------------------------------------------------

    def plan(self, members: tuple[int, ...]) -> Plan:
        """Return the plan of this task in a generation of some tasks."""
        return plan_of(self.spec, membership=self.membership, members=members)

    def graph(self, members: tuple[int, ...], seed: int | None) -> Prepared:
        """Return the graph of this task in a generation of some tasks, with all that is needed to train."""
        with self._one_graph:
            if members not in self._graphs:
                compiled = graph_of(self.plan(members), seed=seed, traces=self._traces)
                self._graphs[members] = Prepared(compiled, add_saving(compiled))
            found = self._graphs[members]
            if self.stream is not None:
                attach_part(found.compiled, found.starters, self.stream)
            return found

    def opening(self) -> tuple[CompiledGraph, Saving, Any]:
        """Return what a generation needs: its graph, the ops for checkpoints, and where its sessions are."""
        roster = self.roster
        assert roster is not None
        found = self.graph(roster.members, roster.seed)
        present = tuple(Task(self.job.name, each) for each in roster.members)
        target = self.make_target(found.compiled, evolve(self.membership, present=present))
        target.crew, target.starters = self, found.starters
        return found.compiled, found.saving, target

    # --- what workers say ---------------------------------------------------------------------------------

    def say(self, *, ready: bool | None = None) -> None:
        """Say at this worker's own server which roster it knows, and whether it could train."""
        self._ready = self._ready if ready is None else ready
        write_text(self._address(self.own), PATIENCE, WORD, Word(self._ready, self.roster).to_json())

    def _heard(self, tasks: Iterable[int] | None = None) -> dict[int, Word]:
        """Return what those of some tasks, or of all, say that answer."""
        asked = [each for each in range(self.job.tasks) if each != self.own] if tasks is None else [*tasks]
        if not asked:
            return {}
        with ThreadPoolExecutor(len(asked), "look") as pool:
            texts = pool.map(lambda each: read_text(self._address(each), PATIENCE, WORD), asked)
            return {
                each: Word.read(text) or Word()
                for each, text in zip(asked, texts, strict=True)
                if text is not None
            }

    def _read(self) -> Roster | None:
        """Return the roster that the chief has called; None if it is not there, or has begun anew."""
        if self._newest is None or (chief := self._newest.members[0]) == self.own:
            return None
        word = self._heard([chief]).get(chief)
        return None if word is None else word.roster

    def look(self) -> tuple[Roster | None, bool]:
        """Return the newest roster of all, and whether it is for this worker to call the next one."""
        found = self._read()
        self.led = found is not None
        if found is not None:
            self._newest, self.heard = found, time.monotonic()
            return found, False
        words = {**self._heard(), self.own: Word(self._ready, self.roster)}
        rosters = [each.roster for each in words.values() if each.roster is not None]
        if not rosters:
            late = self.own == 0 or time.monotonic() - self._began > TO_BEGIN
            return None, late and min(words) == self.own
        found = max(rosters, key=lambda each: (each.number, each.over))
        able = {at for at, each in words.items() if each.ready and _number(each) == found.number}
        heirs = [at for at in found.members if at in able]
        self._newest, chief = found, found.members[0]
        self.led = chief in heirs
        if self.led:
            self.heard = time.monotonic()
        elif chief not in words and not self._is_gone(chief, certain=2 * len(heirs) > len(found.members)):
            return found, False
        return found, heirs[:1] == [self.own]

    def _is_gone(self, task: int, *, certain: bool = True) -> bool:
        """Whether a task is gone: nothing listens at its address, or it has not answered for long.

        Args:
            certain: Whether a task may count as gone of which only that is known that it does not answer.
        """
        silence = probe(self._address(task), PATIENCE)
        if silence is None:
            self._silent.pop(task, None)
            return False
        since = self._silent.setdefault(task, time.monotonic())
        return silence.kind == "refused" or (certain and time.monotonic() - since > SILENT)

    def lacks_member(self) -> bool:
        """Whether a worker of the generation is gone; asked again after a while only."""
        if self.roster is None or time.monotonic() - self._probed < LOOK_EVERY:
            return False
        self._probed = time.monotonic()
        others = (each for each in self.roster.members if each != self.own)
        return any(self._is_gone(each, certain=False) for each in others)

    def is_stale(self) -> bool:
        """Whether there is another roster than the one that this process knows, or is to be."""
        if self.leads:
            return self.changed
        if self._stale != self.generation and time.monotonic() - self._asked >= LOOK_EVERY:
            found, self._asked = self._read(), time.monotonic()
            if found is not None and found.number != self.generation:
                self._stale = self.generation
        return self._stale == self.generation

    # --- a worker's ---------------------------------------------------------------------------------------

    @property
    def chief(self) -> str:
        """The chief of the newest roster that is known, in words; before the first, who probably is it."""
        known = self._newest or self.roster
        task = 0 if known is None else known.members[0]
        return f"{self._ref(task)} at {self._address(task)}"

    def enter(self, roster: Roster) -> None:
        """Enter a generation, for which this worker is on the roster."""
        self.roster = self._newest = roster
        self.say()

    def require(self, missing: Callable[[], list[str]], why: str, begun: float) -> None:
        """Raise RunError if tasks have been missing for too long.

        Args:
            begun: Since when they have been missing (`time.monotonic()`).
        """
        train, waited = self.spec.train, time.monotonic() - begun
        if waited > train.task_timeout:
            span = train.spans.get("task_timeout")
            raise RunError(
                errors.tasks_missing(span, missing=missing(), why=why, waited=duration(train.task_timeout))
            )

    # --- the chief's --------------------------------------------------------------------------------------

    @property
    def first(self) -> tuple[int, ...]:
        """Those that probably begin the training if this worker is the chief."""
        others = [each for each in range(self.job.tasks) if each != self.own]
        return order(self.own, others[: self.least - 1])

    def call(self, seed: int, check: Callable[[], None]) -> Roster:
        """Call a roster of all that are there, as soon as these are enough.

        Raises:
            Replaced: If another worker has become the chief.
        """
        begun, said = time.monotonic(), SAY_AFTER
        while len(members := self._there()) < self.least:
            check()
            waited = time.monotonic() - begun
            self.require(
                lambda: [self._ref(each) for each in range(self.job.tasks) if each not in members],
                f"for {self.least} workers",
                begun,
            )
            if waited > said:
                said *= 2
                self.reporter.note(f"waiting for workers: {len(members)} of at least {self.least} are there")
            time.sleep(LOOK_EVERY)
        number = max(time.time_ns(), self.generation + APART)
        self.roster, self.changed = Roster(number, members, seed), False
        self._newest = self.roster
        self.say(ready=True)
        return self.roster

    def end(self) -> None:
        """Say that training is over, also to workers that have not begun yet."""
        if self.roster is not None:
            self.roster = evolve(self.roster, over=True)
            self.say()

    def _there(self) -> tuple[int, ...]:
        words = self._heard()
        if any(_number(each) > self.generation for each in words.values()):
            raise Replaced
        return order(self.own, (task for task, each in words.items() if each.ready))

    @property
    def are_too_few(self) -> bool:
        """Whether fewer workers are there than train."""
        with suppress(Replaced):
            return len(self._there()) < self.least
        return False

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look during a block whether workers have come or gone."""
        self.group = None
        with alongside(self._watch, "roster"):
            yield

    def _watch(self, over: threading.Event) -> None:
        assert self.roster is not None
        members, leaving_since = {*self.roster.members}, None
        others = [each for each in range(self.job.tasks) if each not in members]
        while not self.changed and not over.wait(LOOK_EVERY):
            leaving = self._leaving()
            if leaving and leaving_since is None:
                leaving_since = time.monotonic()
            words = self._heard(each for each in others if probe(self._address(each), PATIENCE) is None)
            self._prepare(order(self.own, members - leaving | {*words}))
            gone = any(map(self._is_gone, members - {self.own}))
            late = leaving_since is not None and time.monotonic() - leaving_since > TO_PREPARE
            self.changed = gone or late or any(each.ready for each in words.values())

    def _leaving(self) -> set[int]:
        """Return the workers that have said that they leave; not those that have ended with training."""
        try:
            state = None if self.group is None else self.group.state()
        except (tf.errors.OpError, RuntimeError):
            return set()
        if state is None or state.phase != OPEN:
            return set()
        return {each for each, left in enumerate(state.left) if left}

    def _prepare(self, members: tuple[int, ...]) -> None:
        """Let all workers make the graphs of the next generation while they still train in this one."""
        assert self.roster is not None
        if members in {self.roster.members, self.roster.next} or len(members) < self.least:
            return
        self.roster = evolve(self.roster, next=members)
        self.say()
        self.graph(members, self.roster.seed)

    def prepare_next(self) -> None:
        """Make the graph of the next generation, if the chief has said who will be in it."""
        if self.leads or time.monotonic() - self._prepared < ASK_EVERY:
            return
        found, self._prepared = self._read(), time.monotonic()
        if found is not None and found.number == self.generation and self.own in found.next:
            self.graph(found.next, found.seed)

    def stepped(self) -> None:
        """Note that a step has been made, and report the first one of a generation."""
        now, roster = time.monotonic(), self.roster
        if roster is not None and roster.number != self._told:
            self._told = roster.number
            names = [self._ref(each) for each in sorted(roster.members)]
            stop = "" if self._stepped is None else f", after a stop of {now - self._stepped:.2f} s"
            step = 0 if self.group is None else self.group.standing().step
            self.reporter.note(f"{len(names)} workers train from step {step:,} on{stop}: {joined(names)}")
        self._stepped = now
