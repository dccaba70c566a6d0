"""A cluster of real processes on which one combination after the other is verified."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import tensorflow as tf
from attrs import field, frozen

from compiler.plan import WorkerPlan
from dsl.diagnostics import RunError
from dsl.errors import running as errors
from tfdeploy.runtime.cluster.health.monitor import TaskMonitor
from tfdeploy.runtime.launch.launched_run import copied_spec
from tfdeploy.runtime.launch.launcher import Launcher
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.options import RunOptions
from tfdeploy.runtime.session.faults import reason_of
from tfdeploy.runtime.verify.located_session import COMBINATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from compiler.graph.compiled import CompiledGraph
    from dsl import ir
    from tfdeploy.runtime.launch.launcher import Stream
    from tfdeploy.runtime.membership.addresses import Cluster

Result = TypeVar("Result")

PATIENCE = 300.0  # seconds, for servers to listen and for a step to be made
ATTEMPTS = 3  # after which a combination has failed


@frozen
class LaunchedServers:
    """Servers of a cluster that run on this machine.

    Attributes:
        cluster: The tasks and their addresses.
        monitor: Monitors the tasks.
        say: Called with a sentence if something is tried again.
    """

    cluster: Cluster = field(repr=False)
    monitor: TaskMonitor = field(repr=False)
    say: Callable[[str], None] = field(repr=False)

    def verify(self, attempt: Callable[[], Result]) -> Result:
        """Verify a combination; if a server is lost, wait until it is back, and begin again.

        Args:
            attempt: Verifies it from the beginning.

        Returns:
            What the attempt returns.

        Raises:
            RunError: Servers do not come back, or the combination has failed `ATTEMPTS` times.
        """
        failed = 0
        while True:
            try:
                return attempt()
            except tf.errors.OpError as fault:
                failed += 1
                if failed == ATTEMPTS:
                    raise RunError(errors.step_failed(COMBINATION, reason_of(fault), None)) from fault
                self.monitor.require("to verify")
                self.say(f"{COMBINATION} is verified again, because a server was lost")

    def session(self, compiled: CompiledGraph) -> Any:
        """Open a session for a graph: a worker's own at its server, the graph of all at the chief's."""
        from compiler.graph.session_options import session_config

        plan, task = compiled.plan, self.cluster.chief
        if isinstance(plan, WorkerPlan):
            task = Task.of(plan.worker.host)
        config = session_config(compiled.plan)
        config.operation_timeout_in_ms = int(PATIENCE * 1000)
        return tf.compat.v1.Session(
            f"grpc://{self.cluster.address(task)}", graph=compiled.graph, config=config
        )


@contextmanager
def launched_servers(
    spec: ir.Spec, flags: Sequence[str], say: Callable[[str], None]
) -> Iterator[LaunchedServers]:
    """Start the servers of a spec in one graph as processes of this machine, and end them in the end.

    Args:
        spec: The spec, as it was read.
        flags: The options of the command line with which the tasks read the same spec.
        say: Called with what the tasks write to standard error, and with the names of tasks that are waited
            for.

    Raises:
        RunError: If the servers do not start.
    """

    def on_line(task: Task, line: str, stream: Stream) -> None:
        if stream == "stderr":
            say(f"{task.ref} | {line}")

    with (
        copied_spec(spec, flags, RunOptions()) as command,
        Launcher(command, on_line, say) as launcher,
        ExitStack() as ending,
        launcher.supervised(),
    ):
        ending.callback(launcher.end_all)  # without waiting for the servers to end by themselves
        monitor = TaskMonitor(launcher.client, launcher.cluster.tasks, say, PATIENCE, spec)
        monitor.require("to verify")
        if launcher.failure is not None:
            raise RunError(launcher.failure)
        yield LaunchedServers(launcher.cluster, monitor, say)
