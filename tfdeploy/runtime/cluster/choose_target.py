"""Chooses the session target of a run: this process, emulated workers, a cluster's client, or a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from attrs import evolve

from compiler.graph.build import compile_graph
from compiler.graph.compiled import CompiledGraph
from compiler.graph.inspect.verify_placement import homes_of_variables
from compiler.graph.session_options import session_config
from compiler.graph.tower.traces import Traces
from compiler.pipeline import for_worker
from compiler.plan import Plan, WorkerPlan
from compiler.topology import Host
from dsl import ir
from tfdeploy.data import Stream
from tfdeploy.runtime.cluster.health import PUBLISH_EVERY, SelfMeasurement, publishing
from tfdeploy.runtime.cluster.identity import CLIENT_HEALTH, write_text
from tfdeploy.runtime.cluster.monitor import TaskMonitor
from tfdeploy.runtime.cluster.roster import Crew
from tfdeploy.runtime.cluster.server import Server, keep_buffers, loopback_server, serve_task
from tfdeploy.runtime.cluster.session_target import SessionTarget
from tfdeploy.runtime.cluster.worker_steps import loop_of
from tfdeploy.runtime.membership.addresses import Membership, Task
from tfdeploy.runtime.plans import RunOptions, folder_of
from tfdeploy.runtime.show.reporting import Reporter
from tfdeploy.runtime.stop import StopSignals, in_background
from tfdeploy.runtime.watchdog import HealthMonitor

Opening = Callable[[CompiledGraph], AbstractContextManager[SessionTarget]]

PATIENCE = 10.0  # seconds; a worker that has not ended by then ends with the process


class ThreadMonitor(HealthMonitor):
    """Monitors the threads of workers, as `TaskMonitor` monitors tasks.

    An exception that has ended one of them is `timed_out`, which ends all waiting.
    """

    def __init__(self, trainings: list[Future[int]]) -> None:
        self._trainings = trainings

    @property
    def timed_out(self) -> BaseException | None:
        """The first fault of a worker, which the chief raises again."""
        faults = (each.exception() for each in self._trainings if each.done())
        return next((each for each in faults if each is not None), None)


@contextmanager
def emulated_workers(
    compiled: CompiledGraph, plan: WorkerPlan, stream: Stream, stop: StopSignals, reporter: Reporter
) -> Iterator[SessionTarget]:
    """Start all workers but the chief as threads, which end when the chief ends the training."""
    base, traces = str(folder_of(plan.spec)), Traces(str(folder_of(plan.spec)))
    server = loopback_server(session_config(plan, served=True))  # which lasts as long as this name for it
    target = SessionTarget(server.target)
    graphs = [
        compile_graph(for_worker(plan, index), base=base, seed=compiled.seed, traces=traces)
        for index in range(1, plan.worker.count)
    ]
    trainings: list[Future[int]] = []
    target.monitor = ThreadMonitor(trainings)
    for each in graphs:
        trainings.append(in_background(loop_of(each)(each, stream, target, stop, reporter).train))  # noqa: PERF401
    try:
        yield target
    finally:
        wait(trainings, PATIENCE)


@contextmanager
def target_for(
    plan: Plan, options: RunOptions, stop: StopSignals, stream: Stream, own: SelfMeasurement
) -> Iterator[Opening]:
    """Yield a function that opens the session target of a run for its compiled graph.

    A worker's server is started first, so that others find it while the graph is being built.
    """
    membership, say = options.membership, options.reporter.note
    if not isinstance(plan, WorkerPlan):
        if membership is None:
            yield lambda _compiled: nullcontext(SessionTarget())
            return
        chief = membership.cluster.address(membership.cluster.chief)
        with publishing(own, lambda text: write_text(chief, PUBLISH_EVERY, CLIENT_HEALTH, text)):
            yield lambda _compiled: nullcontext(_client_target(plan, membership, say))
    elif membership is None:
        yield lambda compiled: emulated_workers(compiled, plan, stream, stop, options.reporter)
    else:
        keep_buffers()
        with (
            serve_task(plan.spec, membership) as server,
            publishing(own, server.published.publish_health),
        ):
            server.announce(say, options.reporter.warn)
            yield lambda compiled: nullcontext(worker_target(compiled, membership, server.target, say))


@contextmanager
def crew_for(spec: ir.Spec, options: RunOptions, own: SelfMeasurement) -> Iterator[tuple[Crew, Server]]:
    """Start the server of a worker that may come and go; yield its view of all of them, and the server.

    Raises:
        RunError: If a worker that is there is of another run, or runs another spec or version.
    """
    membership, say = options.membership, options.reporter.note
    assert membership is not None
    keep_buffers()
    with serve_task(spec, membership) as server, publishing(own, server.published.publish_health):
        server.announce(say, options.reporter.warn)
        # Of two workers, the later one sees the other here, because each asks when its own server answers.
        alone = evolve(membership, present=())
        TaskMonitor(alone, membership.others, say, spec.train.task_timeout, spec).missing()
        make = partial(worker_target, url=server.target, say=say)
        yield Crew(spec, membership, options.reporter, make), server


def _client_target(plan: Plan, membership: Membership, say: Callable[[str], None]) -> SessionTarget:
    """Return the session target of a client that trains on all tasks of a cluster by one graph."""
    needs = _tasks(device.host for device in plan.topology.devices)
    url = f"grpc://{membership.cluster.address(membership.cluster.chief)}"
    return _target(plan, membership, url, say, needs, needs, elsewhere=True)


def worker_target(
    compiled: CompiledGraph, membership: Membership, url: str, say: Callable[[str], None]
) -> SessionTarget:
    """Return the session target of a worker with a graph of its own; `url` is that of its own server."""
    plan = compiled.plan
    assert isinstance(plan, WorkerPlan)
    homes = homes_of_variables(compiled)
    if plan.keeps_all:
        homes = {towers[0].device.host for towers in plan.worker.everyone}
    needs = _tasks(sorted(homes, key=str))
    chief = Task.of(plan.worker.everyone[0][0].device.host)
    others = membership.others if plan.worker.is_chief else (*needs, chief)
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
