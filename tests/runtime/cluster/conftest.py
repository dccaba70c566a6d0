"""What tests of clusters need of other programs."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest


@pytest.fixture
def listener() -> Iterator[Callable[[bytes | None], int]]:
    """Return a function that listens on a port and answers every connection with some bytes, or never."""
    with ExitStack() as stack:

        def listen(answer: bytes | None) -> int:
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def loop() -> None:
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    with connection:
                        connection.recv(1024)
                        connection.sendall(answer or b"")

            if answer is not None:
                thread = threading.Thread(target=loop, daemon=True)
                thread.start()
                stack.callback(thread.join)
                stack.callback(server.shutdown, socket.SHUT_RDWR)
            return int(server.getsockname()[1])

        yield listen
