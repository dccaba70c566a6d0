"""What tests of clusters need: a spec with a cluster on free ports, and tasks as processes."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests import forked
from tests.folders import ROOT
from tfdeploy.runtime.membership.secret import VARIABLE, Secret, secret_of

PATIENCE = 180.0  # seconds until a test gives up, counted from when a server listens or a program says a word
STARTING = 600.0  # seconds until a program says its first word, however busy the machine is

SPEC = """
tfdeploy = 1

model "small" {{
  image = input(float32, [16])
  digit = input(int32, [])
  logits = image -> Dense(4, name = "logits")
  loss = [digit, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}

data {{
  train = synthetic(256, image = feature(float32, [16]), digit = feature(int32, classes = 4)) -> cache()
}}

devices {{
  job "ps" {{ {ps} }}
  job "worker" {{ {worker} }}
}}

clones {{ batch = 8 }}
update {{ optimizer = SGD(0.1) }}
train {{ steps = 20 }}
"""


def secret_of_folder(folder: Path) -> Secret:
    """Return the secret that the processes of a test share."""
    return secret_of({VARIABLE: str(folder / "secret")})


def free_ports(count: int) -> list[int]:
    """Return ports that nothing has at the moment."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def is_pending(pid: int, number: signal.Signals) -> bool:
    """Whether a signal that was sent to a process has not reached it yet."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(fields["ShdPnd"], 16) >> (number - 1) & 1)


class Process:
    """A process of Python whose lines are read as they come; it is forked unless it is to be `executed`."""

    def __init__(
        self, arguments: list[str], environment: dict[str, str], cwd: Path, *, executed: bool = False
    ) -> None:
        clean = {key: each for key, each in os.environ.items() if key != "TF_CONFIG"}
        clean[VARIABLE] = str(cwd / "secret")
        start = subprocess.Popen if executed else forked.Popen
        self.process = start(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**clean, "PYTHONPATH": str(ROOT), **environment},
            cwd=cwd,
        )
        self.pid = self.process.pid
        self.text = ""

    @property
    def lines(self) -> list[str]:
        """The lines that have been read."""
        return self.text.splitlines()

    def until(self, words: str, patience: float = PATIENCE) -> str:
        """Read until a line has `words` in it, and return that line."""
        end = self._end_of(patience)
        while True:
            whole = self.text.rpartition("\n")[0].splitlines()
            found = next((line for line in whole if words in line), None)
            if found is not None:
                return found
            assert self._read(end), f"{words!r} is not in:\n{self.text}"

    def _end_of(self, patience: float) -> float:
        """Return when `patience` seconds are over, once the process has said its first word."""
        if not self.text:
            self._read(time.monotonic() + STARTING)
        return time.monotonic() + patience

    def _read(self, end: float) -> bool:
        """Read what comes before `end`; return whether more may come."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
        data = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
        self.text += data.decode()
        return bool(data)

    def read(self) -> None:
        """Take what is there to be read, so that the process need not wait for a reader."""
        while self._read(time.monotonic()):
            pass

    def wait_for(self, holds: Callable[[], object], patience: float = PATIENCE) -> None:
        """Read until something holds."""
        end = self._end_of(patience)
        while not holds():
            assert time.monotonic() < end, self.text
            self.read()
            time.sleep(0.05)

    def end(self, patience: float = PATIENCE) -> int:
        """Wait for the process to end and return its exit code."""
        end = self._end_of(patience)
        while self._read(end):
            pass
        return self.process.wait(max(5.0, end - time.monotonic()))

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def close(self) -> None:
        """Kill the process if it is still there."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Tasks:
    """A folder with the spec of a cluster, and its tasks as processes."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.spec = folder / "small.tfdeploy"
        self.stack = stack
        self.ports = free_ports(3)
        self.write()

    def write(self, ps: str | None = None, worker: str | None = None) -> None:
        """Write the spec; by default with loopback hosts for one parameter server and two workers."""
        hosts = [f'"127.0.0.1:{port}"' for port in self.ports]
        self.spec.write_text(
            SPEC.format(
                ps=ps if ps is not None else f"hosts = [{hosts[0]}]",
                worker=worker if worker is not None else f"hosts = [{', '.join(hosts[1:])}]",
            )
        )

    def address(self, index: int) -> str:
        """Return an address of the cluster, the parameter server's first."""
        return f"127.0.0.1:{self.ports[index]}"

    def start(self, *arguments: str, **environment: str) -> Process:
        """Start a command of tfdeploy."""
        return self._process(["-m", "tfdeploy", *arguments], environment)

    def execute(self, *arguments: str) -> Process:
        """Start Python with these arguments, as a user would: nothing is loaded before."""
        return self._process([*arguments], {}, executed=True)

    def start_script(self, script: str, *arguments: str) -> Process:
        """Start a program in Python."""
        return self._process(["-c", script, *arguments], {})

    def _process(
        self, arguments: list[str], environment: dict[str, str], *, executed: bool = False
    ) -> Process:
        process = Process(arguments, environment, self.folder, executed=executed)
        self.stack.callback(process.close)
        return process

    def serve(self, task: str, *arguments: str, **environment: str) -> Process:
        """Start the server of a task."""
        return self.start("serve", str(self.spec), "--task", task, *arguments, **environment)

    def load(self, **overrides: Any) -> Any:
        """Return the spec; `train__steps=5` sets `train.steps`."""
        from tfdeploy import api

        return api.load(self.spec, {key.replace("__", "."): each for key, each in overrides.items()})
