"""Whether the tasks of a cluster can reach each other on this machine."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dsl.files.regular import system_reason
from tfdeploy.doctor.findings import Finding
from tfdeploy.runtime.proxies import LOOPBACK, is_loopback_excepted, proxy_variable

if TYPE_CHECKING:
    from collections.abc import Mapping

TASKS = 16
"""The number of ports that are tried at a time."""

PATIENCE = 10.0


def loopback() -> Finding:
    """Return whether processes of this machine can connect to each other, on free ports."""
    try:
        ports = _connect()
    except OSError as fault:
        reason = system_reason(fault)
        advice = "clusters cannot be started on this machine; allow its programs to listen at that address"
        return Finding("network", "failure", f"{LOOPBACK} cannot be reached: {reason}", advice)
    return Finding("network", "fine", f"{LOOPBACK} can be reached at {ports} ports that were free")


def _connect() -> int:
    """Listen at several ports, connect to each, and return their number; raises OSError."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(TASKS)]
        for server in servers:
            server.settimeout(PATIENCE)
            with socket.create_connection(server.getsockname(), PATIENCE):
                accepted, _ = server.accept()
                accepted.close()
    return len(servers)


def proxy(environment: Mapping[str, str] = os.environ) -> Finding:
    """Return whether a proxy stands between tasks of this machine.

    Args:
        environment: The variables by name.
    """
    used = proxy_variable(environment)
    if used is None:
        return Finding("proxy", "fine", "none that TensorFlow would use")
    if is_loopback_excepted(environment):
        return Finding("proxy", "fine", f"{used} is set, with an exception for {LOOPBACK}")
    advice = "tasks on several machines reach each other through it; add their hosts to no_proxy"
    return Finding("proxy", "warning", f"{used} is set; tasks of this machine do not use it", advice)
