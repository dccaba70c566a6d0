"""All workers of a cluster in one process: a thread for each but the chief, over one server of its own."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from compiler.graph.build import compile_graph
from compiler.graph.session_options import session_config
from compiler.graph.tower.traces import Traces
from compiler.pipeline import for_worker
from tfdeploy.runtime.cluster.server.server import loopback_server
from tfdeploy.runtime.cluster.workers.session_target import Station
from tfdeploy.runtime.cluster.workers.worker import Member
from tfdeploy.runtime.plans import folder_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compiler.graph.compiled import CompiledGraph
    from tfdeploy.data import Stream
    from tfdeploy.runtime.show.reporting import Reporter
    from tfdeploy.runtime.stop import StopSignals


PATIENCE = 10.0  # seconds; a member that has not ended by then is left to end with the process


class Thread(threading.Thread):
    """A member's thread; `fault` is what has ended it before its time."""

    def __init__(self, member: Member, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.member = member
        self.fault: BaseException | None = None

    def run(self) -> None:
        """Train."""
        try:
            self.member.train()
        except BaseException as fault:  # noqa: BLE001  # raised again by the chief, who waits for the thread
            self.fault = fault


class Threads:
    """Looks after the members as `Watch` does after tasks: what ends one is `timed_out` for who waits."""

    def __init__(self, threads: list[Thread]) -> None:
        self._threads = threads

    @property
    def timed_out(self) -> BaseException | None:
        """The first fault of a member."""
        return next((each.fault for each in self._threads if each.fault is not None), None)

    @property
    def absent(self) -> tuple[()]:
        """No one."""
        return ()

    def progress(self) -> None:
        """Do nothing: threads do not go missing."""

    @contextmanager
    def during(self, doing: str) -> Iterator[None]:
        """Do nothing."""
        del doing
        yield


@contextmanager
def emulated_crew(
    compiled: CompiledGraph, stream: Stream, stop: StopSignals, reporter: Reporter
) -> Iterator[Station]:
    """Start all workers but the chief, whose graph is `compiled`; they end when the chief says so.

    `stream` is the whole of the training data, of which each reads its part.
    """
    plan = compiled.plan
    assert plan.worker is not None
    base, traces = str(folder_of(plan.spec)), Traces(str(folder_of(plan.spec)))
    server = loopback_server(session_config(plan))  # which lasts as long as this name for it
    station = Station(server.target)
    threads: list[Thread] = []
    for index in range(1, plan.worker.count):
        graph = compile_graph(for_worker(plan, index), base=base, seed=compiled.seed, traces=traces)
        member = Member(graph, stream, station, stop, reporter)
        threads.append(Thread(member, f"worker {index}"))
    station.monitor = Threads(threads)
    for each in threads:
        each.start()
    try:
        yield station
    finally:
        for each in threads:
            each.join(PATIENCE)
