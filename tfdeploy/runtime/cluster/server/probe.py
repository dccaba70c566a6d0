"""Finds out quickly whether anything answers at an address, and whether that could be a TensorFlow server.

TensorFlow itself waits for a server without a message. A TCP connection shows at once that nothing listens,
and the first bytes of HTTP/2 (RFC 9113), on which gRPC is built, show that another program does.
"""

from __future__ import annotations

import errno
import socket
from typing import Literal, TypeAlias

from attrs import frozen

from dsl.addresses import split_address

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"  # and no settings
FRAME_HEADER = 9
SETTINGS = 4
UNREACHABLE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL}

NOTHING_ANSWERS = "connections are taken, and nothing answers"

Kind: TypeAlias = Literal["unknown host", "unreachable", "refused", "silent", "foreign"]


@frozen
class NoAnswer:
    """Why there is no answer from a task.

    Attributes:
        kind: The kind of failure: `refused` if nothing listens, `silent` if no answer comes in time (as from
            a process that is stopped), `foreign` if what listens is no TensorFlow server.
        words: The reason, in words that fit into a sentence.
    """

    kind: Kind
    words: str


def probe(address: str, timeout: float) -> NoAnswer | None:
    """Return None if something at `address` speaks HTTP/2 within `timeout` seconds, else why not.

    Args:
        address: The address, as `host:port`.
        timeout: The seconds that the connection may take.
    """
    host, port = split_address(address)
    try:
        connection = socket.create_connection((host, port), timeout)
    except socket.gaierror:
        return NoAnswer("unknown host", f"the name `{host}` is not known")
    except TimeoutError:
        return NoAnswer("unreachable", "no answer to a connection")
    except OSError as error:
        return _refused(error)
    with connection:
        return _greet(connection)


def _greet(connection: socket.socket) -> NoAnswer | None:
    try:
        connection.sendall(PREFACE)
        with connection.makefile("rb") as file:
            answer = file.read(FRAME_HEADER)
    except TimeoutError:
        return NoAnswer("silent", NOTHING_ANSWERS)
    except OSError:
        return NoAnswer("foreign", "the connection is broken off")
    if len(answer) == FRAME_HEADER and answer[3] == SETTINGS:
        return None
    return NoAnswer("foreign", "something that is no TensorFlow server answers")


def _refused(error: OSError) -> NoAnswer:
    if error.errno in UNREACHABLE:
        return NoAnswer("unreachable", (error.strerror or "unreachable").lower())
    if error.errno == errno.ECONNREFUSED:
        return NoAnswer("refused", "nothing listens there")
    return NoAnswer("silent", (error.strerror or "no connection").lower())
