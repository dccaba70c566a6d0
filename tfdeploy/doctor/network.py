"""Whether the tasks of a cluster can reach each other on this machine."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from tfdeploy.doctor.findings import Finding
from tfdeploy.runtime.cluster.server.binding import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""The variables by which gRPC, and so TensorFlow, finds a proxy. Those in capitals do not count."""

EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
TASKS = 16
"""The number of ports that are tried at a time."""

PATIENCE = 10.0


def loopback() -> Finding:
    """Return whether processes of this machine can connect to each other, on free ports."""
    try:
        ports = _connect()
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
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


def proxy() -> Finding:
    """Return whether a proxy stands between tasks of this machine."""
    return judge_proxy(os.environ)


def judge_proxy(environment: Mapping[str, str]) -> Finding:
    """Judge the variables of an environment that name proxies.

    Servers of TensorFlow send what they say to each other to the proxy, also on one machine, and wait forever
    if it does not pass that on.

    Args:
        environment: The variables by name.
    """
    used = next((each for each in PROXIES if environment.get(each)), None)
    if used is None:
        return Finding("proxy", "fine", "none that TensorFlow would use")
    kept = next((environment[each] for each in EXCEPTIONS if environment.get(each)), "")
    if any(_excepts(each.strip()) for each in kept.split(",")):
        return Finding("proxy", "fine", f"{used} is set, with an exception for {LOOPBACK}")
    advice = f"tasks of a cluster on this machine wait for the proxy forever; add {LOOPBACK} to no_proxy"
    return Finding("proxy", "failure", f"{used} is set, without an exception for {LOOPBACK}", advice)


def _excepts(entry: str) -> bool:
    """Whether an entry of `no_proxy` is about the loopback: the end of a name, or a network."""
    if "/" in entry:
        try:
            return ip_address(LOOPBACK) in ip_network(entry, strict=False)
        except ValueError:
            return False
    return bool(entry) and LOOPBACK.endswith(entry)
