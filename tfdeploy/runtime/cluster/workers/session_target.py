"""Where this process opens its sessions, and how the tasks are handled that these depend on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.session_options import session_config
from compiler.plan import WorkerPlan
from tfdeploy.runtime.cluster.health.monitor import TaskMonitor
from tfdeploy.runtime.cluster.server.identity import shut_down
from tfdeploy.runtime.cluster.workers.worker_group import WorkerGroup
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.session.checkpoint_files import ClientFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compiler.graph.compiled import CompiledGraph
    from tfdeploy.runtime.membership.addresses import Membership
    from tfdeploy.runtime.session.engine import Engine
    from tfdeploy.runtime.session.health import HealthMonitor
    from tfdeploy.runtime.stop import StopSignals

LEAVE_TAKING = 10.0  # seconds that workers have for taking note of the end
PATIENCE = 2.0  # seconds for telling a server that it is not needed any more
MOST_AT_ONCE = 32


@define
class SessionTarget:
    """The server at which sessions are opened, and who is looked after meanwhile.

    Args:
        url: The server's address, as `grpc://host:port`; empty for a session in this process alone.
        membership: This process's part in a cluster; None without one.
        needs_monitor: Looks after the tasks of `needs`.
        monitor: Looks after all other processes while training goes on.
        elsewhere: Whether the server is in another process, which may not have this process's files.
        needs: The tasks without which sessions do not work.
    """

    url: str = ""
    membership: Membership | None = None
    needs_monitor: TaskMonitor | None = None
    monitor: HealthMonitor | None = None
    elsewhere: bool = False
    needs: tuple[Task, ...] = field(factory=tuple)

    def session(self, compiled: CompiledGraph) -> Any:
        """Open a session for a graph."""
        config = session_config(compiled.plan)
        plan = compiled.plan
        if self.membership is not None and isinstance(plan, WorkerPlan):
            host = plan.worker.host
            own = Task(str(host[0]), host[1])
            config.device_filters.extend(_filter(each) for each in dict.fromkeys((own, *self.needs)))
        if self.membership is not None and self.needs_monitor is not None:
            config.operation_timeout_in_ms = int(self.needs_monitor.timeout * 1000)
        return tf.compat.v1.Session(self.url, graph=compiled.graph, config=config)

    def wait_for_tasks(self, why: str, check: Callable[[], None]) -> None:
        """Wait until all tasks that are needed are there; raise RunError if that takes too long.

        `check` is called while it waits, and may raise.
        """
        if self.needs_monitor is not None:
            self.needs_monitor.check = check
            self.needs_monitor.require(why)

    @contextmanager
    def monitored(self, why: str) -> Iterator[None]:
        """Look after the tasks meanwhile; missing tasks are named if training makes no progress."""
        if self.monitor is None:
            yield
            return
        with self.monitor.during(why):
            yield

    def prepare(self, engine: Engine, stop: StopSignals, say: Callable[[str], None]) -> WorkerGroup | None:
        """Give the chief's engine what it needs of the others, and every variable its initial value.

        If workers have graphs of their own, they stop before anything is changed. Returns the chief's view of
        all workers then, else None.
        """
        self.attach_monitors(engine)
        if self.elsewhere:
            engine.files = ClientFiles(
                {name: each.initializer for name, each in engine.compiled.saved.items()}
            )
        group = None
        if engine.compiled.exchange is not None:
            group = WorkerGroup(engine, stop, self.monitor, say)
            group.announce()
        engine.initialise()
        return group

    def attach_monitors(self, engine: Engine) -> None:
        """Give an engine the monitors of this target."""
        monitor = engine.monitor = self.monitor
        engine.lost = self.needs_monitor.lost if self.needs_monitor is not None else None
        if monitor is not None:
            engine.activity.causes["tasks"] = lambda: [(each.words, None) for each in monitor.absent]

    def end(self, group: WorkerGroup | None) -> None:
        """Tell all workers and servers that can be reached that training is over."""
        if group is not None:
            # A worker that cannot be reached notices by itself that training has stopped.
            with suppress(tf.errors.OpError):
                group.end(LEAVE_TAKING)
        self.dismiss()

    def dismiss(self) -> None:
        """Tell all servers that can be reached that they are not needed any more."""
        secret = self.membership.secret if self.membership is not None else None
        if self.membership is not None and secret is not None:
            addresses = [self.membership.cluster.address(each) for each in self.membership.others]
            with ThreadPoolExecutor(MOST_AT_ONCE, "dismiss") as pool:
                list(pool.map(lambda each: shut_down(each, PATIENCE, secret), addresses))


def _filter(task: Task) -> str:
    return f"/job:{task.job}/task:{task.index}"
