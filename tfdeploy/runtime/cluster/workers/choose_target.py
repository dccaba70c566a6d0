"""Chooses the session target of a run: this process, emulated workers, a cluster's client, or a worker."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from compiler.graph.inspect.devices.own_devices import homes_of_variables
from compiler.plan import WorkerPlan
from tfdeploy.runtime.cluster.health.monitor import TaskMonitor
from tfdeploy.runtime.cluster.server.server import serve_task
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
        with serve_task(plan.spec, membership) as server:
            server.announce(say, options.reporter.warn)
            yield lambda compiled: nullcontext(_worker_target(compiled, plan, membership, server.target, say))


def _client_target(plan: Plan, membership: Membership, say: Callable[[str], None]) -> SessionTarget:
    """Return the session target of a client that trains on all tasks of a cluster by one graph."""
    needs = _tasks(device.host for device in plan.topology.devices)
    url = f"grpc://{membership.cluster.address(membership.cluster.chief)}"
    return _target(plan, membership, url, say, needs, needs, elsewhere=True)


def _worker_target(
    compiled: CompiledGraph,
    plan: WorkerPlan,
    membership: Membership,
    url: str,
    say: Callable[[str], None],
) -> SessionTarget:
    """Return the session target of a worker with a graph of its own; `url` is that of its own server."""
    needs = _tasks(sorted(homes_of_variables(compiled), key=str))
    others = membership.others if plan.worker.is_chief else (*needs, membership.cluster.chief)
    return _target(plan, membership, url, say, needs, tuple(dict.fromkeys(others)))


def _target(
    plan: Plan,
    membership: Membership,
    url: str,
    say: Callable[[str], None],
    needs: tuple[Task, ...],
    others: tuple[Task, ...],
    *,
    elsewhere: bool = False,
) -> SessionTarget:
    """Return a session target that waits for the tasks that it needs, and monitors others during training."""
    timeout, spec = plan.spec.train.task_timeout, plan.spec
    own, all_ = (TaskMonitor(membership, each, say, timeout, spec) for each in (needs, others))
    return SessionTarget(url, membership, own, all_, elsewhere, needs)


def _tasks(hosts: Iterable[Host]) -> tuple[Task, ...]:
    return tuple(map(Task.of, dict.fromkeys(hosts)))
