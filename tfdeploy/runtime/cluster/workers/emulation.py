"""All workers of a cluster in one process: a thread for each but the chief, and one server for all."""

from __future__ import annotations

import threading
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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import WorkerPlan
    from tfdeploy.data import Stream
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals


PATIENCE = 10.0  # seconds; a worker that has not ended by then ends with the process


class WorkerThread(threading.Thread):
    """The thread of a worker; `fault` is the exception that has ended it, if there is one."""

    def __init__(self, worker: WorkerLoop, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.worker = worker
        self.fault: BaseException | None = None

    def run(self) -> None:
        """Train until the chief ends the training."""
        try:
            self.worker.train()
        except BaseException as fault:  # noqa: BLE001  # raised again by the chief, who waits for the thread
            self.fault = fault


class ThreadMonitor:
    """Monitors the threads of workers, as `TaskMonitor` monitors tasks.

    An exception that has ended one of them is `timed_out`, which ends all waiting.
    """

    def __init__(self, threads: list[WorkerThread]) -> None:
        self._threads = threads

    @property
    def timed_out(self) -> BaseException | None:
        """The first fault of a worker."""
        return next((each.fault for each in self._threads if each.fault is not None), None)

    @property
    def absent(self) -> tuple[()]:
        """Nothing, because threads are never absent."""
        return ()

    def progress(self) -> None:
        """Do nothing, because threads are never absent."""

    @contextmanager
    def during(self, doing: str) -> Iterator[None]:
        """Do nothing during the block, because threads are never absent."""
        del doing
        yield


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
    threads: list[WorkerThread] = []
    for index in range(1, plan.worker.count):
        graph = compile_graph(for_worker(plan, index), base=base, seed=compiled.seed, traces=traces)
        worker = WorkerLoop(graph, stream, target, stop, reporter)
        threads.append(WorkerThread(worker, f"worker {index}"))
    target.monitor = ThreadMonitor(threads)
    for each in threads:
        each.start()
    try:
        yield target
    finally:
        for each in threads:
            each.join(PATIENCE)
