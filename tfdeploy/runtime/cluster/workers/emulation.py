"""All workers of a cluster in one process: a thread for each but the chief, and one server for all."""

from __future__ import annotations

from concurrent.futures import wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compiler.graph.build import compile_graph
from compiler.graph.session_options import session_config
from compiler.graph.tower.traces import Traces
from compiler.pipeline import for_worker
from tfdeploy.runtime.cluster.server.server import loopback_server
from tfdeploy.runtime.cluster.workers.session_target import SessionTarget
from tfdeploy.runtime.cluster.workers.worker_loop import WorkerLoop
from tfdeploy.runtime.plans import folder_of
from tfdeploy.runtime.session.health import HealthMonitor
from tfdeploy.runtime.stop import in_background

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import WorkerPlan
    from tfdeploy.data import Stream
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals


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
    """Start all workers but the chief as threads, which end when the chief ends the training.

    Args:
        compiled: The graph of the chief.
        plan: The plan of the chief.
        stream: The whole training data, of which each worker reads its share.
        stop: The signals of the process.
        reporter: Is called with notes of the workers.

    Yields:
        The session target that all workers share.
    """
    base, traces = str(folder_of(plan.spec)), Traces(str(folder_of(plan.spec)))
    server = loopback_server(session_config(plan))  # which lasts as long as this name for it
    target = SessionTarget(server.target)
    graphs = [
        compile_graph(for_worker(plan, index), base=base, seed=compiled.seed, traces=traces)
        for index in range(1, plan.worker.count)
    ]
    trainings: list[Future[int]] = []
    target.monitor = ThreadMonitor(trainings)
    for each in graphs:
        trainings.append(in_background(WorkerLoop(each, stream, target, stop, reporter).train))  # noqa: PERF401
    try:
        yield target
    finally:
        wait(trainings, PATIENCE)
