"""Who trains, if workers come and go: the chief calls a roster for each generation, and all others read it.

The roster is a text at the chief's server, as the identities of tasks are. A worker that could train says so
at its own server. Between two steps, or when a step cannot end, the chief looks who is there and calls a new
roster; every worker makes the graph of those who are on it, and all meet as after any break.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, evolve, field, frozen

from compiler.compatibility import changing_job
from compiler.graph.storage.saving import Saving, add_saving
from compiler.graph.tower.traces import Traces
from compiler.graph.workers.meeting import OPEN
from dsl.diagnostics import RunError
from dsl.errors import cluster as errors
from dsl.errors.wording import joined
from dsl.files.typed_json import Count, JsonRecord
from tfdeploy.runtime.cluster.identity import probe, read_text, write_text
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.plans import folder_of, graph_of, plan_of
from tfdeploy.runtime.show.reporting import duration
from tfdeploy.runtime.stop import alongside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import Plan
    from dsl import ir
    from tfdeploy.runtime.membership.addresses import Membership
    from tfdeploy.runtime.show.reporting import Reporter

ROSTER, READY = "tfdeploy/roster", "tfdeploy/ready"
"""The names of the texts at the servers of the chief, and of a worker that could train."""

LOOK_EVERY, PATIENCE, SAY_AFTER = 0.25, 2.0, 5.0
ASK_EVERY, TO_PREPARE = 0.5, 1.5
"""The seconds after which a worker asks for the next generation, and for which one that leaves stays."""


@frozen
class Roster(JsonRecord):
    """Who trains in a generation.

    Attributes:
        number: The number of the generation.
        members: The numbers of the tasks that train.
        before: The number of the roster before; 0 if the chief has called none since its start.
        seed: The seed of the run.
        over: Whether training is over.
        next: Who will probably train in the next generation; nobody if that is not known.
    """

    number: Count
    members: tuple[Count, ...]
    before: Count
    seed: Count
    over: bool = False
    next: tuple[Count, ...] = ()


class Changed(tf.errors.AbortedError):  # type: ignore[misc] # TensorFlow has no types
    """The workers of the generation are not those that there are any more."""

    def __init__(self) -> None:
        super().__init__(None, None, "workers come or go")


@define
class Crew:
    """The tasks that may train, as one of them sees them.

    Attributes:
        spec: The spec, a job of which has a number of tasks that changes.
        membership: The part of this process in the cluster of all of these tasks.
        reporter: Is called with what changes.
        make_target: Returns where sessions of a graph are opened, for a membership with those who are there.
        roster: The newest roster; None before the first.
        changed: Whether workers have come or gone since then, on the chief.
        was_absent: Whether this worker has missed a generation, in which others have made steps.
        group: The chief's view of the workers of the generation; None before it has one.
    """

    spec: ir.Spec
    membership: Membership
    reporter: Reporter = field(repr=False)
    make_target: Callable[[CompiledGraph, Membership], Any] = field(repr=False)
    roster: Roster | None = None
    changed: bool = False
    was_absent: bool = False
    group: Any = field(default=None, repr=False)
    _traces: Traces = field(init=False, repr=False)
    _graphs: dict[tuple[int, ...], tuple[CompiledGraph, Saving]] = field(factory=dict, repr=False)
    _stepped: float | None = None  # when the last step was made
    _asked: float = 0.0  # when the roster was read last
    _prepared: float = 0.0  # when the roster was read last for the next generation
    _one_graph: threading.Lock = field(factory=threading.Lock, init=False, repr=False)
    _told: int = 0  # the roster that has been told of

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

    def _address(self, task: int) -> str:
        return self.membership.cluster.address(Task(self.job.name, task))

    def _ref(self, task: int) -> str:
        return Task(self.job.name, task).ref

    @property
    def _own(self) -> str:
        return self._address(self.membership.own.index)

    # --- graphs -------------------------------------------------------------------------------------------

    def plan(self, members: tuple[int, ...]) -> Plan:
        """Return the plan of this task in a generation of some tasks."""
        return plan_of(self.spec, membership=self.membership, members=members)

    def graph(self, members: tuple[int, ...], seed: int | None) -> tuple[CompiledGraph, Saving]:
        """Return the graph of this task in a generation of some tasks, and the ops for its checkpoints."""
        with self._one_graph:
            if members not in self._graphs:
                compiled = graph_of(self.plan(members), seed=seed, traces=self._traces)
                self._graphs[members] = compiled, add_saving(compiled)
            return self._graphs[members]

    def opening(self) -> tuple[CompiledGraph, Saving, Any]:
        """Return what a generation needs: its graph, the ops for checkpoints, and where its sessions are."""
        roster = self.roster
        assert roster is not None
        compiled, saving = self.graph(roster.members, roster.seed)
        present = tuple(Task(self.job.name, each) for each in roster.members)
        target = self.make_target(compiled, evolve(self.membership, present=present))
        target.crew = self
        return compiled, saving, target

    def is_stale(self) -> bool:
        """Whether there is another roster than the one that this process knows, or is to be."""
        if self.membership.own.index == 0:
            return self.changed
        if time.monotonic() - self._asked < LOOK_EVERY:
            return False
        found, self._asked = self.read(), time.monotonic()
        return found is not None and found.number != self.generation

    # --- a worker's ---------------------------------------------------------------------------------------

    @property
    def chief(self) -> str:
        """The chief in words."""
        return f"{self._ref(0)} at {self._address(0)}"

    @property
    def generation(self) -> int:
        """The number of the newest roster; 0 before the first."""
        return 0 if self.roster is None else self.roster.number

    def enter(self, roster: Roster) -> None:
        """Enter a generation, for which this worker is on the roster."""
        self.was_absent = self.generation != 0 and roster.before not in {0, self.generation}
        self.roster = roster

    def require(self, missing: Callable[[], list[str]], why: str, begun: float) -> None:
        """Raise RunError if tasks have been missing for too long.

        Args:
            missing: Returns the tasks in words.
            why: What they are needed for.
            begun: Since when they have been missing (`time.monotonic()`).
        """
        train, waited = self.spec.train, time.monotonic() - begun
        if waited > train.task_timeout:
            span = train.spans.get("task_timeout")
            raise RunError(
                errors.tasks_missing(span, missing=missing(), why=why, waited=duration(train.task_timeout))
            )

    def read(self) -> Roster | None:
        """Return the roster that the chief has called; None if it has called none, or is not there."""
        text = read_text(self._address(0), PATIENCE, ROSTER)
        return None if text is None else Roster.read(text)

    def say_ready(self, *, ready: bool = True) -> None:
        """Say at this worker's own server whether it could train."""
        write_text(self._own, PATIENCE, READY, "1" if ready else "")

    # --- the chief's --------------------------------------------------------------------------------------

    def call(self, seed: int, check: Callable[[], None]) -> Roster:
        """Call a roster of all that are there, as soon as these are enough.

        Args:
            seed: The seed of the run.
            check: Called while it waits; it may raise an exception.

        Raises:
            RunError: If too few are there for too long.
        """
        begun, said = time.monotonic(), SAY_AFTER
        while len(members := self._there()) < self.least:
            check()
            waited = time.monotonic() - begun
            if waited > self.spec.train.task_timeout:
                span = self.spec.train.spans.get("task_timeout")
                why = f"for {self.least} workers"
                missing = [
                    Task(self.job.name, each).ref for each in range(self.job.tasks) if each not in members
                ]
                raise RunError(errors.tasks_missing(span, missing=missing, why=why, waited=f"{waited:.0f} s"))
            if waited > said:
                said *= 2
                self.reporter.note(f"waiting for workers: {len(members)} of at least {self.least} are there")
            time.sleep(LOOK_EVERY)
        self.roster, self.changed = Roster(time.time_ns(), members, self.generation, seed), False
        write_text(self._own, PATIENCE, ROSTER, self.roster.to_json())
        return self.roster

    def end(self) -> None:
        """Say that training is over, also to workers that have not begun yet."""
        if self.roster is not None:
            write_text(self._own, PATIENCE, ROSTER, evolve(self.roster, over=True).to_json())

    def _there(self) -> tuple[int, ...]:
        return (0, *filter(self._is_ready, range(1, self.job.tasks)))

    def _is_ready(self, task: int) -> bool:
        return bool(read_text(self._address(task), PATIENCE, READY))

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look during a block whether workers have come or gone."""
        self.group = None
        with alongside(self._watch, "roster"):
            yield

    def _watch(self, over: threading.Event) -> None:
        assert self.roster is not None
        members, leaving_since = {*self.roster.members}, None
        others = [each for each in range(1, self.job.tasks) if each not in members]
        while not self.changed and not over.wait(LOOK_EVERY):
            leaving = self._leaving()
            if leaving and leaving_since is None:
                leaving_since = time.monotonic()
            known = [each for each in others if probe(self._address(each), PATIENCE) is None]
            self._prepare(tuple(sorted(members - leaving | {*known})))
            gone = any(probe(self._address(each), PATIENCE) is not None for each in members - {0})
            late = leaving_since is not None and time.monotonic() - leaving_since > TO_PREPARE
            self.changed = gone or late or any(map(self._is_ready, known))

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
        write_text(self._own, PATIENCE, ROSTER, self.roster.to_json())
        self.graph(members, self.roster.seed)

    def prepare_next(self) -> None:
        """Make the graph of the next generation, if the chief has said who will be in it."""
        if self.membership.own.index == 0 or time.monotonic() - self._prepared < ASK_EVERY:
            return
        found, self._prepared = self.read(), time.monotonic()
        if found is not None and found.number == self.generation and self.membership.own.index in found.next:
            self.graph(found.next, found.seed)

    def stepped(self) -> None:
        """Note that a step has been made, and report the first one of a generation."""
        now, roster = time.monotonic(), self.roster
        if roster is not None and roster.number != self._told:
            self._told = roster.number
            names = [self._ref(each) for each in roster.members]
            stop = "" if self._stepped is None else f", after a stop of {now - self._stepped:.2f} s"
            step = 0 if self.group is None else self.group.standing().step
            self.reporter.note(f"{len(names)} workers train from step {step:,} on{stop}: {joined(names)}")
        self._stepped = now
