"""Addresses of tasks: `host:port`."""

from __future__ import annotations

_HIGHEST_PORT = 65535
_SIGNS = frozenset("-._")


def split_address(address: str) -> tuple[str, int]:
    """Split the address of a task into its host and port.

    Args:
        address: `host:port`, or `[::1]:port` for an IPv6 address.

    Returns:
        The host, without brackets, and the port.

    Raises:
        ValueError: If the address is malformed; the message says what is wrong with it.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host:
        raise ValueError("it is not of the form `host:port`")
    if not port.isascii() or not port.isdigit() or not 0 < int(port) <= _HIGHEST_PORT:
        raise ValueError(f"ports are 1 to {_HIGHEST_PORT}")
    if host.startswith("[") and host.endswith("]"):
        if not _is_v6(host[1:-1]):
            raise ValueError("what stands in brackets is no IPv6 address")
        return host[1:-1], int(port)
    if ":" in host:
        raise ValueError("an IPv6 address stands in brackets, as in `[::1]:2222`")
    if not all(sign.isalnum() or sign in _SIGNS for sign in host):
        raise ValueError("names of hosts have letters, digits, dots and hyphens")
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("each part of a host's name, between dots, has 1 to 63 characters") from None
    return host, int(port)


def _is_v6(host: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address  # only if there is one

    try:
        IPv6Address(host)
    except AddressValueError:
        return False
    return True
