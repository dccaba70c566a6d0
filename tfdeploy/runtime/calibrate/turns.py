"""Turns of processes that measure: one of them works at a time, and all meet the machine in the same states.

The memory of a machine is slower for seconds or minutes while its neighbours use it. Processes that measure
one after the other would each be compared with another machine.

The process that starts the others writes a byte to the standard input of one of them, which is a socket, and
waits until that one answers with a byte, or ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack

STANDARD_INPUT = 0
_TURN = b"\n"

Wait = Callable[[], None]
"""Ends the turn of this process, and returns when its next one begins."""


def at_once() -> None:
    """Begin the next turn at once, as a process does that measures alone."""


class Turns:
    """The turns of this process, which another one gives.

    Args:
        descriptor: The socket at which it is told.
    """

    def __init__(self, descriptor: int = STANDARD_INPUT) -> None:
        self._descriptor = descriptor
        self._begun = False

    def __call__(self) -> None:
        """End the turn, if there was one, and wait for the next.

        Raises:
            SystemExit: If the other process has ended.
        """
        if self._begun:
            os.write(self._descriptor, _TURN)
        self._begun = True
        if not os.read(self._descriptor, 1):
            raise SystemExit(1)


def nothing() -> None:
    """Do nothing when each process has had a turn."""


def run_in_turns(commands: Sequence[Sequence[str]], between: Callable[[], None] = nothing) -> bool:
    """Run processes that measure, each of which works while the others wait.

    Args:
        commands: Their commands; the processes call `Turns`.
        between: Is called when each of them has had a turn, and again after each further turn of all.

    Returns:
        Whether all have succeeded. If one fails, the others are ended.
    """
    with ExitStack() as stack:
        works = [_start(stack, each) for each in commands]
        while works:
            for process, connection in list(works):
                if _has_turn(connection):
                    continue
                if process.wait() != 0:
                    return False
                works.remove((process, connection))
            if works:
                between()
    return True


def _start(stack: ExitStack, command: Sequence[str]) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process; leaving the stack ends it and waits for it."""
    ours, theirs = socket.socketpair()
    stack.enter_context(ours)
    with theirs:
        process = subprocess.Popen(command, stdin=theirs.fileno())
    stack.enter_context(process)
    stack.callback(process.kill)
    return process, ours


def _has_turn(connection: socket.socket) -> bool:
    """Let a process work until it ends its turn; return False if it has ended instead."""
    try:
        connection.sendall(_TURN)
        return bool(connection.recv(1))
    except (BrokenPipeError, ConnectionResetError):
        return False
