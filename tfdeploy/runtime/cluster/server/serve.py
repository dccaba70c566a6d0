"""Runs the server of one task until the run is over or a signal comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dsl.errors import cluster as errors
from tfdeploy.runtime.cluster.server.memory import holds_pieces, return_memory_at_once
from tfdeploy.runtime.membership.membership import require_server
from tfdeploy.runtime.start_tensorflow import start_tensorflow
from tfdeploy.runtime.stop import StopSignals

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsl import ir
    from dsl.diagnostics import Diagnostic
    from tfdeploy.runtime.cluster.server.server import Server
    from tfdeploy.runtime.membership.addresses import Membership

POLL = 0.1
ASK_EVERY = 0.5


def serve(
    spec: ir.Spec,
    membership: Membership,
    say: Callable[[str], None],
    warn: Callable[[Diagnostic], None],
    *,
    verbose: bool = False,
) -> None:
    """Run the server of a task, and return when the client or the chief of the run has shut it down.

    Args:
        spec: The spec.
        membership: The part of this process in the cluster, with its task.
        say: Called with a sentence when the server listens, and when it ends.
        warn: Called with warnings.
        verbose: Whether TensorFlow's own messages are shown.

    Raises:
        SpecError: If the task is not run by `tfdeploy serve`, or lacks GPUs.
        RunError: If the server cannot be started.
        Interrupted: If SIGINT has ended it.
        Terminated: If SIGTERM has ended it.
    """
    task = membership.own
    require_server(spec, task)
    with StopSignals(own_process=True) as stop:
        if holds_pieces(spec):
            return_memory_at_once()
        start_tensorflow(verbose=verbose)
        from tfdeploy.runtime.cluster.server.server import serve_task

        stop.check()
        with serve_task(spec, membership) as server:
            server.announce(say, warn)
            _wait(server, stop, warn)
        ended = f"by {stop.received.name}" if stop.received is not None else "with the run"
        say(f"{task.ref} ended {ended}")
        stop.check()


def _wait(server: Server, stop: StopSignals, warn: Callable[[Diagnostic], None]) -> None:
    ask_at, warned = 0.0, False
    while stop.received is None:
        if time.monotonic() >= ask_at:
            if server.published.finished:
                return
            if server.published.got_invalid_token and not warned:
                warned = True
                warn(errors.disbelieved(ref=server.published.identity.task.ref))
            ask_at = time.monotonic() + ASK_EVERY
        time.sleep(POLL)
