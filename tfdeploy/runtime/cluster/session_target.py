"""Where this process opens its sessions, and how the tasks are handled that these depend on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.compiled import CompiledGraph
from compiler.graph.session_options import session_config
from compiler.plan import WorkerPlan
from tfdeploy.data import Stream
from tfdeploy.runtime.cluster.identity import shut_down
from tfdeploy.runtime.cluster.monitor import TaskMonitor
from tfdeploy.runtime.cluster.replica_group import ReplicaGroup
from tfdeploy.runtime.cluster.roster import Changed, Crew
from tfdeploy.runtime.cluster.worker_group import WorkerGroup
from tfdeploy.runtime.membership.addresses import Membership, Task
from tfdeploy.runtime.session.checkpoint_files import ClientFiles
from tfdeploy.runtime.session.engine import Engine, ServedSession
from tfdeploy.runtime.stop import StopSignals, in_background
from tfdeploy.runtime.watchdog import OTHERS, HealthMonitor

LEAVE_TAKING = 10.0  # seconds that workers have to notice the end of training
PATIENCE = 2.0  # seconds for shutting down a server
MOST_AT_ONCE = 32
POLL = 0.05


@define
class SessionTarget:
    """The server at which sessions are opened, and the tasks that are monitored meanwhile."""

    url: str = ""  # the server's address, as `grpc://host:port`; empty for a session in this process alone
    membership: Membership | None = None  # this process's part in a cluster; None without one
    needs_monitor: TaskMonitor | None = None  # waits for the tasks of `needs`
    monitor: HealthMonitor = field(factory=HealthMonitor)  # monitors all other processes during training
    # Whether the server is in another process, which may not have this process's files.
    elsewhere: bool = False
    needs: tuple[Task, ...] = field(factory=tuple)  # the tasks without which sessions do not work
    # The tasks that may train, if workers come and go; None if they do not.
    crew: Crew | None = field(default=None, repr=False)
    starters: dict[Stream, Any] = field(factory=dict, repr=False)

    def session(self, compiled: CompiledGraph, graph: tf.Graph | None = None) -> Any:
        """Open a session for a graph, or another one on the same devices."""
        config = session_config(compiled.plan, served=bool(self.url))
        plan = compiled.plan
        if self.membership is not None and isinstance(plan, WorkerPlan):
            tasks = dict.fromkeys((Task.of(plan.worker.host), *self.needs))
            config.device_filters.extend(f"/job:{each.job}/task:{each.index}" for each in tasks)
        if self.membership is not None and self.needs_monitor is not None:
            config.operation_timeout_in_ms = int(self.needs_monitor.timeout * 1000)
        opening = ServedSession if self.url else tf.compat.v1.Session
        return opening(self.url, graph=graph or compiled.graph, config=config)

    def wait_for_tasks(self, why: str, check: Callable[[], None]) -> None:
        """Wait until all tasks that are needed are running.

        Args:
            why: What is waited for, such as `to start training`.
            check: Called while it waits; it may raise an exception.
        """
        if self.needs_monitor is not None and self.crew is None:
            self.needs_monitor.check = check
            self.needs_monitor.require(why)

    def watched(self) -> AbstractContextManager[None]:
        """Look during a block whether workers come or go, if they do."""
        return nullcontext() if self.crew is None else self.crew.watched()

    def reach(self, engine: Engine, check: Callable[[], None]) -> None:
        """Reach all workers of the generation, if they come and go.

        TensorFlow waits for one that has just gone as long as for any other. This does not, also if it is the
        chief that has gone, in whose place this worker may have to call the others.

        Args:
            check: Called while it waits; it may raise an exception.

        Raises:
            tf.errors.AbortedError: If workers have come or gone meanwhile.
        """
        exchange, crew = engine.compiled.exchange, self.crew
        if crew is None or exchange is None:
            return
        self.attach_monitors(engine)  # by which it is known that a task was lost, and not an op that failed
        opened = in_background(lambda: engine.session.run(exchange.unstage))
        while not opened.done():
            wait([opened], POLL)
            check()
            if crew.is_stale() or crew.lacks_member():
                raise Changed
        opened.result()

    def prepare(self, engine: Engine, stop: StopSignals, say: Callable[[str], None]) -> WorkerGroup | None:
        """Prepare the chief's engine for training, and give every variable its initial value.

        If workers have graphs of their own, they stop before anything is changed. Returns the chief's view of
        all workers then, else None.
        """
        self.attach_monitors(engine)
        if self.elsewhere:
            engine.files = ClientFiles()
        if engine.compiled.exchange is None:
            engine.initialise()
            return None
        group = self.group(engine, stop, say)
        if self.crew is not None and isinstance(group, ReplicaGroup):
            self.crew.group = group
        group.begin()
        return group

    def group(self, engine: Engine, stop: StopSignals, say: Callable[[str], None]) -> WorkerGroup:
        """Return the view of all workers of one that has a graph of its own."""
        assert engine.compiled.exchange is not None
        if engine.compiled.exchange.meeting is not None:
            opening = partial(self.session, engine.compiled)
            return ReplicaGroup(engine, stop, say, open_session=opening, crew=self.crew)
        return WorkerGroup(engine, stop, say)

    def attach_monitors(self, engine: Engine) -> None:
        """Set the monitors of an engine to those of this target."""
        engine.monitor = self.monitor
        if self.crew is not None:
            engine.closing = POLL  # a worker of the generation may be gone
        engine.lost = self.needs_monitor.lost if self.needs_monitor is not None else None
        engine.activity.causes["tasks"] = lambda: [(each.words, None) for each in self.monitor.absent]
        if isinstance(self.monitor, TaskMonitor):
            engine.activity.causes[OTHERS] = self.monitor.late

    def end(self, engine: Engine, group: WorkerGroup | None) -> None:
        """End the training of all workers that can be reached, and shut down their servers.

        The session is closed before its server is shut down, because a server that is gone closes none.

        Args:
            group: The chief's view of all workers that have graphs of their own; None if there are none.
        """
        if group is not None:
            # A worker that cannot be reached notices by itself that training has stopped.
            with suppress(tf.errors.OpError):
                group.end(LEAVE_TAKING)
        engine.close()
        self.dismiss()

    def dismiss(self) -> None:
        """Shut down all servers that can be reached."""
        secret = self.membership.secret if self.membership is not None else None
        if self.membership is not None and secret is not None:
            cluster = self.membership.cluster
            addresses = [cluster.address(each) for each in cluster.tasks if each != self.membership.task]
            with ThreadPoolExecutor(MOST_AT_ONCE, "dismiss") as pool:
                list(pool.map(lambda each: shut_down(each, PATIENCE, secret), addresses))
