"""Proxies, by which TensorFlow's servers must not reach each other on one machine."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

LOOPBACK = "127.0.0.1"
LOCAL_NAME = "localhost"

PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
"""The variables by which gRPC, and so TensorFlow, finds a proxy. Those in capitals do not count."""

EXCEPTIONS = ("no_grpc_proxy", "no_proxy")
"""The variables with hosts that are reached without the proxy. gRPC reads the first that is set."""


def proxy_variable(environment: Mapping[str, str]) -> str | None:
    """Return the name of the variable by which TensorFlow finds a proxy; None if there is no proxy."""
    return next((each for each in PROXIES if environment.get(each)), None)


def is_loopback_excepted(environment: Mapping[str, str]) -> bool:
    """Return whether an environment with a proxy excepts the address of this machine itself."""
    return any(_is_loopback(each.strip()) for each in _exceptions(environment).split(","))


def except_loopback(environment: MutableMapping[str, str]) -> None:
    """Let TensorFlow reach servers on this machine without a proxy.

    It would send what they say to each other to the proxy, and wait for ever if that does not pass it on.

    Args:
        environment: The variables by name, usually `os.environ`. It is changed only if it names a proxy.
    """
    if proxy_variable(environment) is None or is_loopback_excepted(environment):
        return
    kept = _exceptions(environment)
    environment[EXCEPTIONS[0]] = ",".join(each for each in (kept, LOOPBACK, LOCAL_NAME) if each)


def _exceptions(environment: Mapping[str, str]) -> str:
    return next((environment[each] for each in EXCEPTIONS if environment.get(each)), "")


def _is_loopback(entry: str) -> bool:
    """Whether an entry of `no_proxy` is about the loopback: the end of a name, or a network."""
    if "/" in entry:
        try:
            return ip_address(LOOPBACK) in ip_network(entry, strict=False)
        except ValueError:
            return False
    return bool(entry) and LOOPBACK.endswith(entry)
