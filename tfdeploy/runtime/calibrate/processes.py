"""The processes that measure: what they are asked and answer, whose turn it is, and other work meanwhile.

There is one process for each number of threads, because that is fixed for a process. One of them works at
a time, and all meet the machine in the same states: its memory is slower for seconds or minutes while its
neighbours use it, and processes that measure one after the other would each be compared with another
machine. The process that starts the others writes a byte to the standard input of one of them, which is a
socket, and waits until that one answers with a byte, or ends.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from attrs import Factory, evolve, frozen

from compiler.time.profile import OpCost, Profile
from dsl.files.typed_json import read_record
from dsl.schema.hardware import REACHED_BYTES, REACHED_FLOPS, TABLE
from tfdeploy.runtime.launch.task_processes import follower, lifeline
from tfdeploy.runtime.stop import temporary_folder

LONG = 10e-6
"""The seconds from which on the time of an op is that of its work."""

ALONE = ("IteratorGetNext",)
"""The types of ops that are never divided among threads: these wait for a thread of their own."""

CORE = TABLE["cpu"]


@frozen
class MeasureRequest:
    """What is to be measured."""

    emulate: bool
    inner_threads: int  # how many threads may work on one op
    beside: bool  # whether ops are also measured while all cores are busy, and steps without a trace
    traced: int
    seconds: float  # the most that each of the measurements may take
    turns: int  # in how many turns steps are made


def joined(answers: Sequence[Profile], spec: str) -> Profile:
    """Return the profile of a spec.

    Args:
        answers: The answer of a process with one thread for each op, and if there are several cores, that of
            one with a thread for each core.
    """
    first, *wide = answers
    known = {_key(each): each.alone for answer in wide for each in answer.ops if each.type not in ALONE}
    ops = tuple(evolve(each, wide=known.get(_key(each))) for each in first.ops)
    awake, tower_awake = (wide[0].awake, wide[0].tower_awake) if wide else (0.0, None)
    return evolve(first, specs=(spec,), ops=ops, awake=awake, tower_awake=tower_awake)


def reached(ops: Sequence[OpCost]) -> tuple[float, float]:
    """Return the operations per second of ops that mostly compute, and the bytes per second of others."""
    computing = [(each.flops, each.alone) for each in ops if each.flops > each.bytes]
    moving = [(each.bytes, each.alone) for each in ops if each.flops <= each.bytes]
    return _rate(computing, CORE.flops * REACHED_FLOPS), _rate(moving, CORE.memory * REACHED_BYTES)


def _rate(work: list[tuple[int, float]], otherwise: float) -> float:
    """Return the work per second of all long ops together, so that the longest count most.

    Args:
        otherwise: The rate if there is no long op, whose time would not be that of its start.
    """
    found = [(amount, seconds) for amount, seconds in work if seconds >= LONG and amount]
    return sum(each[0] for each in found) / sum(each[1] for each in found) if found else otherwise


def _key(cost: OpCost) -> tuple[str, tuple[str, ...], str]:
    return cost.type, cost.inputs, cost.detail


STANDARD_INPUT = 0
_TURN = b"\n"

Wait = Callable[[], None]
"""Ends the turn of this process, and returns when its next one begins."""


class Turns:
    """The turns of this process, which another one gives."""

    def __init__(self, descriptor: int = STANDARD_INPUT) -> None:
        self._descriptor = descriptor
        self._begun = False

    def __call__(self) -> None:
        """End the turn, if any, and wait for the next; raises SystemExit if the other process has ended."""
        if self._begun:
            os.write(self._descriptor, _TURN)
        self._begun = True
        if not os.read(self._descriptor, 1):
            raise SystemExit(1)


def run_in_turns(
    commands: Sequence[Sequence[str]], between: Callable[[], None] = lambda: None, *inherited: int
) -> bool:
    """Run processes that measure, each of which works while the others wait.

    Args:
        commands: Their commands; the processes call `Turns`.
        between: Is called when each of them has had a turn, and again after each further turn of all.
        inherited: Descriptors that they inherit.

    Returns:
        Whether all have succeeded. If one fails, the others are ended.
    """
    with ExitStack() as stack:
        works = [_start(stack, each, inherited) for each in commands]
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


def _start(
    stack: ExitStack, command: Sequence[str], inherited: Sequence[int]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process; leaving the stack ends it and waits for it."""
    ours, theirs = socket.socketpair()
    stack.enter_context(ours)
    with theirs:
        process = subprocess.Popen(command, stdin=theirs.fileno(), pass_fds=inherited)
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


STAT = Path("/proc/stat")
"""What the system tells of its processors."""

BUSY = 0.1
"""The part of the processors from which on other work matters."""


def busy_processors(stat: Path = STAT) -> float | None:
    """Return the seconds for which all processors have been busy so far; None if the system does not tell.

    They include those that a virtual machine has waited for its host.
    """
    try:
        words = stat.read_text(encoding="ascii").partition("\n")[0].split()
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft, stolen = map(int, words[1:9])
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def own_processors() -> float:
    """Return the processor seconds of this process, and of those that it has started and that have ended."""
    return sum(os.times()[:4])


@frozen
class OtherWork:
    """Measures what other processes do from its creation on."""

    began: float = Factory(time.perf_counter)  # the time of its creation, in seconds
    # The seconds for which processors had been busy by then; None if that is not known.
    busy: float | None = Factory(busy_processors)
    own: float = Factory(own_processors)  # the processor seconds of this process by then

    def share(self) -> float | None:
        """Return the part of the processors that other work has had, from 0 to 1; None if it is not known."""
        return self.share_until(OtherWork(), os.cpu_count() or 1)

    def share_until(self, later: OtherWork, processors: int) -> float | None:
        """Return the same until a later measurement, on a machine with so many processors."""
        passed = (later.began - self.began) * processors
        if later.busy is None or self.busy is None or not passed:
            return None
        others = later.busy - self.busy - (later.own - self.own)
        return min(1.0, max(0.0, others / passed))


LARGEST = 1 << 26
"""The most bytes of an answer."""


def measure_in_processes(
    arguments: Sequence[str], threads: Sequence[int], between: Callable[[], None] = lambda: None
) -> list[Profile] | None:
    """Start a process for each number of threads; return None if one failed, and has said why."""
    with temporary_folder() as folder, lifeline() as pipe:
        answers = {each: folder / f"{each}.json" for each in threads}
        commands = [
            follower(pipe, [*arguments, f"--threads={each}", f"--answer={answer}"])
            for each, answer in answers.items()
        ]
        if not run_in_turns(commands, between, pipe):
            return None
        return [read_record(each, Profile, LARGEST) for each in answers.values()]
