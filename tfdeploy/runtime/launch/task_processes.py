"""The processes that a launcher starts, one for each task: starts them, reads their output, and ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Literal

from attrs import define, field

from tfdeploy.runtime.membership.addresses import Task

SCRIPT = Path(__file__).with_name("child.py")
READ = 0.05
LAST_WORDS = 2.0
BUSY = 0.5
"""The seconds of processor time by which a process shows that it does something. A run that is stuck uses a
hundredth of a core for looking whether it still is."""


class Log:
    """A file to which the output of a process is appended. What a full disk does not take is lost."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)

    def write(self, line: str) -> None:
        """Add a line, unless the file has been closed."""
        with suppress(OSError, ValueError):
            self._file.write(f"{line}\n")

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._file.close()


@define
class TaskProcess:
    """The process of a task."""

    task: Task
    process: subprocess.Popen[str]
    begun: float
    starts: int = 1
    early: int = 0  # how many of its processes in a row have ended soon after their start
    readers: list[threading.Thread] = field(factory=list)
    told: float | None = None  # when it was last sent a signal
    _busy: float = field(factory=time.monotonic, init=False)  # when it last did something
    _used: float = field(default=0.0, init=False)  # seconds of processor time at that time

    @property
    def lived(self) -> float:
        """For how many seconds it has been running."""
        return time.monotonic() - self.begun

    def ended(self) -> int | None:
        """Return the exit code, with minus the number of the signal that ended it; None while it runs."""
        return self.process.poll()

    def send(self, number: int) -> None:
        """Send a signal, and continue the process if it is stopped; does nothing if the process has ended."""
        self.told = self._busy = time.monotonic()
        self.process.send_signal(number)
        self.process.send_signal(signal.SIGCONT)

    def idle(self) -> float:
        """Return for how many seconds it has done nothing since it was sent a signal, as far as is known."""
        now, used = time.monotonic(), self._processor_time()
        if used is None or used - self._used >= BUSY:
            self._busy, self._used = now, used or 0.0
        return now - self._busy

    def _processor_time(self) -> float | None:
        """Return the seconds of processor time that it has used; None if it may wait for a disk."""
        try:
            state, *numbers = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if state == "D" else sum(map(int, numbers[10:12])) / os.sysconf("SC_CLK_TCK")

    def wait_for_output(self) -> None:
        """Wait a moment until the output of the ended process has been read."""
        for each in self.readers:
            each.join(LAST_WORDS)


@contextmanager
def lifeline() -> Iterator[int]:
    """Yield a descriptor whose other end this process alone has, so that it is closed however it ends."""
    reading, writing = os.pipe()
    with os.fdopen(reading), os.fdopen(writing, "w"):
        yield reading


def follower(pipe: int, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs `tfdeploy ARGUMENTS` until this process ends; it inherits the lifeline."""
    return [sys.executable, str(SCRIPT), str(pipe), str(os.getpid()), *arguments]


def start(
    task: Task,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    pipe: int,
    on_line: Callable[[str, Literal["stdout", "stderr"]], None],
) -> TaskProcess:
    """Start `tfdeploy ARGUMENTS` for a task.

    The process is in a session of its own, so that Ctrl-C in a terminal reaches the launcher alone. Linux
    ends the process with the thread that calls this function, so that thread must live as long as it.
    """
    process = subprocess.Popen(
        follower(pipe, arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
        pass_fds=(pipe,),
        start_new_session=True,
        text=True,
        errors="replace",
    )
    child = TaskProcess(task, process, time.monotonic())
    for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
        reader = threading.Thread(target=_read, args=(stream, name, on_line), daemon=True, name=task.ref)
        reader.start()
        child.readers.append(reader)
    return child


def _read(
    stream: IO[str],
    name: Literal["stdout", "stderr"],
    on_line: Callable[[str, Literal["stdout", "stderr"]], None],
) -> None:
    with stream:
        for line in stream:
            on_line(line.rstrip("\n"), name)


def stop(children: Sequence[TaskProcess], grace: float) -> list[TaskProcess]:
    """End processes, and return when all have ended.

    Args:
        children: The processes. They are ended even if they are stopped.
        grace: The seconds between SIGTERM and SIGKILL.

    Returns:
        Those that had to be killed.
    """
    running = [each for each in children if each.ended() is None]
    for each in running:
        each.send(signal.SIGTERM)
    wait(running, grace)
    killed = [each for each in running if each.ended() is None]
    for each in killed:
        each.send(signal.SIGKILL)
    for each in running:
        each.process.wait()
    for each in children:
        each.wait_for_output()
    return killed


def wait(children: Sequence[TaskProcess], seconds: float) -> bool:
    """Wait up to `seconds` for processes to end; return whether all have ended."""
    end = time.monotonic() + seconds
    while any(each.ended() is None for each in children):
        if time.monotonic() > end:
            return False
        time.sleep(READ)
    return True


def describe_exit(code: int) -> str:
    """Return how a process has ended, in words, from its exit code or minus the number of its signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
