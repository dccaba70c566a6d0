"""A cluster of real processes on which one combination after the other is verified."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from compiler.plan import WorkerPlan
from dsl.diagnostics import RunError
from tfdeploy.runtime.cluster.health.monitor import TaskMonitor
from tfdeploy.runtime.launch.launched_run import copied_spec
from tfdeploy.runtime.launch.launcher import Launcher
from tfdeploy.runtime.membership.addresses import Task
from tfdeploy.runtime.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from compiler.graph.compiled import CompiledGraph
    from dsl import ir
    from tfdeploy.runtime.launch.launcher import Stream
    from tfdeploy.runtime.membership.addresses import Cluster

PATIENCE = 300.0  # seconds, for servers to listen and for a step to be made


@frozen
class LaunchedServers:
    """Servers of a cluster that run on this machine.

    Attributes:
        cluster: The tasks and their addresses.
    """

    cluster: Cluster = field(repr=False)

    def session(self, compiled: CompiledGraph) -> Any:
        """Open a session for a graph: a worker's own at its server, the graph of all at the chief's."""
        import tensorflow as tf

        from compiler.graph.session_options import session_config

        plan, task = compiled.plan, self.cluster.chief
        if isinstance(plan, WorkerPlan):
            task = Task(str(plan.worker.host[0]), plan.worker.host[1])
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
        _ended(launcher),
        launcher.supervised(),
    ):
        TaskMonitor(launcher.client, launcher.cluster.tasks, say, PATIENCE, spec).require("to verify")
        if launcher.failure is not None:
            raise RunError(launcher.failure)
        yield LaunchedServers(launcher.cluster)


@contextmanager
def _ended(launcher: Launcher) -> Iterator[None]:
    """End the servers in the end without waiting for them to end by themselves."""
    try:
        yield
    finally:
        launcher.end_all()
