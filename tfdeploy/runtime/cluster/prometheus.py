"""How all tasks of a run do, as text that Prometheus reads, at an address of the chief or the only process.

The format is written here, because it is a line for each number, and no package of the project writes it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from dsl import ir
from dsl.diagnostics import RunError
from dsl.errors import cluster as errors
from dsl.files.regular import system_reason
from dsl.ir.place import metrics_address
from tfdeploy.runtime.cluster.health import SelfMeasurement
from tfdeploy.runtime.cluster.monitor import CLIENT, TaskStatus, cluster_status, lags
from tfdeploy.runtime.membership.addresses import Membership, family_of

CONTENT = "text/plain; version=0.0.4; charset=utf-8"
TO_ANSWER = 10.0  # seconds that a reader may take
METRICS = (
    ("step", "gauge", "The global step to which the task has come.", "step"),
    ("updates_total", "counter", "The updates of a worker that updates by itself.", "updates"),
    ("examples_total", "counter", "The examples on which this process has trained.", "examples"),
    ("memory_bytes", "gauge", "The memory that the process has.", "memory"),
    ("cpu_seconds_total", "counter", "The processor time that it has used.", "processor"),
    ("sent_bytes_total", "counter", "What it has sent to others.", "sent"),
    ("received_bytes_total", "counter", "What it has received.", "received"),
    ("idle_seconds", "gauge", "The time since it last made progress.", "idle"),
    ("stuck", "gauge", "Whether it makes no progress and computes nothing.", "is_stuck"),
)
"""Each number: its name, its type, what it is, and its name in a record of health."""


def exposition(run: str, found: Sequence[TaskStatus]) -> str:
    """Return how tasks do in the text format of Prometheus."""
    healths = {each.name: each.health for each in found if each.health is not None}
    rows: list[tuple[str, str, str, Mapping[str, float]]]
    rows = [("up", "gauge", "Whether the task answers.", {each.name: each.well for each in found})]
    rows += [
        (name, kind, doc, {task: getattr(each, which) for task, each in healths.items()})
        for name, kind, doc, which in METRICS
    ]
    rows.append(("lag_steps", "gauge", "How many steps it is behind the first.", lags(found)))
    lines = []
    for name, kind, doc, values in rows:
        known = {task: float(value) for task, value in values.items() if value is not None}
        if known:
            lines += [f"# HELP tfdeploy_{name} {doc}", f"# TYPE tfdeploy_{name} {kind}"]
        for task, value in known.items():
            lines.append(f'tfdeploy_{name}{{run="{_escaped(run)}",task="{task}"}} {value:.15g}')
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


@contextmanager
def prometheus(
    spec: ir.Spec, membership: Membership | None, own: SelfMeasurement, run: str
) -> Iterator[None]:
    """Offer how the tasks of a run do at `train.prometheus` during a block, if the spec has that.

    Raises:
        RunError: The address cannot be had.
    """
    if spec.train.prometheus is None:
        yield
        return

    def page() -> str:
        if membership is None:
            return exposition(run, [TaskStatus("", "", True, "", own.now())])
        found = [each for each in cluster_status(membership) if each.name != CLIENT]
        if membership.task is None:
            found.append(TaskStatus(CLIENT, "", True, "", own.now()))
        return exposition(run, found)

    address = metrics_address(spec.train.prometheus)
    try:
        server = _Server(address, page)
    except OSError as fault:
        span, (host, port) = spec.train.span_of("prometheus") or spec.train.span, address
        told = errors.no_prometheus(span, address=f"{host}:{port}", reason=system_reason(fault))
        raise RunError(told) from fault
    with server:
        thread = threading.Thread(target=server.serve_forever, daemon=True, name="prometheus")
        thread.start()
        try:
            yield
        finally:
            server.shutdown()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], page: Callable[[], str]) -> None:
        self.page = page
        self.address_family = family_of(address[0])
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        """Listen, without asking for a name of the address, which the base class does."""
        TCPServer.server_bind(self)

    def handle_error(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        """Say nothing of a reader that has gone away."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = TO_ANSWER

    def do_GET(self) -> None:
        """Answer with the numbers, whatever the path before a query is, except for what is elsewhere."""
        if self.path.partition("?")[0] not in {"/", "/metrics"}:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        text = self.server.page().encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the name of the base class
        """Write nothing about each reading."""
