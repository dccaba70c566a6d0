"""What the launcher gives its tasks."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from tfdeploy.runtime.launch.launcher import _reserved


def test_ports_of_tasks_are_reserved() -> None:
    """Addresses are on the loopback device, each with a port of its own that nobody else can take."""
    with ExitStack() as stack, socket.socket() as other:
        addresses = [_reserved(stack) for _ in range(3)]
        hosts, ports = zip(*(each.split(":") for each in addresses), strict=True)
        assert set(hosts) == {"127.0.0.1"}
        assert len(set(ports)) == 3
        with pytest.raises(OSError, match="in use"):
            other.bind((hosts[0], int(ports[0])))
