"""Chooses the session target of a run: this process alone, all workers in it, a client's, or a worker's."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from compiler.plan import WorkerPlan
from tfdeploy.runtime.cluster.server.server import start_server
from tfdeploy.runtime.cluster.workers.emulation import emulated_workers
from tfdeploy.runtime.cluster.workers.session_target import SessionTarget, client_target, worker_target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from compiler.graph.compiled import CompiledGraph
    from compiler.plan import Plan
    from tfdeploy.data import Stream
    from tfdeploy.runtime.options import RunOptions
    from tfdeploy.runtime.stop import StopSignals

    Opening = Callable[[CompiledGraph], AbstractContextManager[SessionTarget]]


@contextmanager
def target_for(plan: Plan, options: RunOptions, stop: StopSignals, stream: Stream) -> Iterator[Opening]:
    """Yield a function that opens the session target of a run for its compiled graph.

    A worker's server is started first, so that others find it while the graph is being made.
    """
    membership, say = options.membership, options.reporter.note
    if not isinstance(plan, WorkerPlan):
        yield lambda _compiled: nullcontext(
            SessionTarget() if membership is None else client_target(plan, membership, say)
        )
    elif membership is None:
        yield lambda compiled: emulated_workers(compiled, plan, stream, stop, options.reporter)
    else:
        with start_server(plan, membership) as server:
            server.announce(say, options.reporter.warn)
            yield lambda compiled: nullcontext(worker_target(compiled, plan, membership, server.target, say))
