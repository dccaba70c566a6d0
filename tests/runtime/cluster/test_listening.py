"""Where a task's server listens: at its own address, and at all of them only if the user asks for that."""

from __future__ import annotations

import pytest

from tests.support import refusal
from tfdeploy.runtime.cluster.server import listening_host
from tfdeploy.runtime.membership.addresses import Cluster, Membership, Task


def membership(host: str, *, everywhere: bool = False) -> Membership:
    """Return the only worker of a cluster, at a host that the spec gives it."""
    cluster = Cluster.of({"worker": [f"{host}:2222"]})
    return Membership(cluster, Task("worker", 0), "", "spec", listen_everywhere=everywhere)


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("no-such-host.invalid", "`no-such-host.invalid` leads to no address"),
        ("192.0.2.1", "`192.0.2.1` leads to other machines' addresses"),  # of no machine: kept for examples
    ],
)
def test_a_host_that_is_not_this_machine(host: str, reason: str) -> None:
    """It is an error, and the port is not opened to everybody, unless that is asked for."""
    found = refusal(listening_host, membership(host))
    assert found.code == "TFD762"
    assert found.message.endswith(reason)
    assert "--listen-everywhere" in (found.help or "")
    assert listening_host(membership(host, everywhere=True)) is None


def test_the_own_address_is_taken_also_when_all_may_be() -> None:
    """The option is for hosts that lead to no address of this machine, and changes nothing for others."""
    for everywhere in (False, True):
        assert listening_host(membership("localhost", everywhere=everywhere)) == "127.0.0.1"
