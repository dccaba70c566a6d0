"""Chooses the session target of a run: this process, emulated workers, a cluster's client, or a worker."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from compiler.graph.inspect.devices.own_devices import homes_of_variables
from compiler.plan import WorkerPlan
from tfdeploy.runtime.cluster.health.monitor import TaskMonitor
from tfdeploy.runtime.cluster.server.server import start_server
from tfdeploy.runtime.cluster.workers.emulation import emulated_workers
from tfdeploy.runtime.cluster.workers.session_target import SessionTarget
from tfdeploy.runtime.membership.addresses import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import Plan
    from compiler.topology import Host
    from tfdeploy.data import Stream
    from tfdeploy.runtime.membership.addresses import Membership
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.stop import StopSignals

    Opening = Callable[[CompiledGraph], AbstractContextManager[SessionTarget]]


@contextmanager
def target_for(plan: Plan, options: RunOptions, stop: StopSignals, stream: Stream) -> Iterator[Opening]:
    """Yield a function that opens the session target of a run for its compiled graph.

    A worker's server is started first, so that others find it while the graph is being built.

    Args:
        plan: The plan of all clones in one graph, or of the worker that this process is.
        options: The options of the run, which say to which cluster this process belongs.
        stop: The signals of the process.
        stream: The training data, which emulated workers share.
    """
    membership, say = options.membership, options.reporter.note
    if not isinstance(plan, WorkerPlan):
        yield lambda _compiled: nullcontext(
            SessionTarget() if membership is None else _client_target(plan, membership, say)
        )
    elif membership is None:
        yield lambda compiled: emulated_workers(compiled, plan, stream, stop, options.reporter)
    else:
        with start_server(plan, membership) as server:
            server.announce(say, options.reporter.warn)
            yield lambda compiled: nullcontext(_worker_target(compiled, plan, membership, server.target, say))


def _client_target(plan: Plan, membership: Membership, say: Callable[[str], None]) -> SessionTarget:
    """Return the session target of a client that trains on all tasks of a cluster by one graph."""
    needs = _tasks(device.host for device in plan.topology.devices)
    timeout, spec = plan.spec.train.task_timeout, plan.spec
    return SessionTarget(
        f"grpc://{membership.cluster.address(membership.cluster.chief)}",
        membership,
        TaskMonitor(membership, needs, say, timeout, spec),
        TaskMonitor(membership, needs, say, timeout, spec),
        elsewhere=True,
        needs=needs,
    )


def _worker_target(
    compiled: CompiledGraph,
    plan: WorkerPlan,
    membership: Membership,
    url: str,
    say: Callable[[str], None],
) -> SessionTarget:
    """Return the session target of a worker with a graph of its own; `url` is that of its own server."""
    worker, spec = plan.worker, plan.spec
    needs = _tasks(sorted(homes_of_variables(compiled), key=str))
    others = membership.others if worker.is_chief else (*needs, membership.cluster.chief)
    timeout = spec.train.task_timeout
    return SessionTarget(
        url,
        membership,
        TaskMonitor(membership, needs, say, timeout, spec),
        TaskMonitor(membership, tuple(dict.fromkeys(others)), say, timeout, spec),
        needs=needs,
    )


def _tasks(hosts: Iterable[Host]) -> tuple[Task, ...]:
    return tuple(Task(str(job), task) for job, task in dict.fromkeys(hosts))
