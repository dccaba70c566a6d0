"""Processes that measure layouts in turns, and how much of the machine others used meanwhile."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from attrs import define, field

from benchmarks.forecasts.cases import Case
from benchmarks.forecasts.turn_effects import Chunk
from benchmarks.race.run import ROOT

HERE = "127.0.0.1"
PATIENCE = 600
"""The seconds after which a process that does not answer has failed."""

_TICKS = os.sysconf("SC_CLK_TCK")


class Failed(Exception):  # noqa: N818  # of a process, not of ours
    """Raised if a process that measures does not answer."""


@define(eq=False)
class Measurer:
    """The process, or the two processes, of some layouts; use it as a context.

    Attributes:
        cases: The layouts.
    """

    cases: Sequence[Case]
    _processes: list[subprocess.Popen[str]] = field(factory=list, init=False, repr=False)

    def __enter__(self) -> Self:
        from tests.runtime.tasks import free_ports

        tasks = self.cases[0].tasks
        addresses = [f"{HERE}:{port}" for port in free_ports(tasks)] if tasks > 1 else []
        for task in range(tasks):
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.forecasts.worker"],
                cwd=ROOT,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            self._processes.append(process)
            first = {"task": task, "addresses": addresses, "specs": [each.text for each in self.cases]}
            _say(process, first)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()

    def ready(self) -> None:
        """Wait until the graphs have been built."""
        for process in self._processes:
            _hear(process)

    def measure(self, number: int, seconds: float) -> Chunk:
        """Let a layout make steps for a while."""
        began, busy, own = time.perf_counter(), _busy(), self._own()
        _say(self._processes[0], {"measure": number, "seconds": seconds})
        found, steps = _hear(self._processes[0])
        own = self._own() - own
        passed = (time.perf_counter() - began) * (os.cpu_count() or 1)
        return Chunk(float(found), own / steps, max(0.0, (_busy() - busy - own) / passed))

    def forecast(self, profile: Path) -> list[tuple[float, float]]:
        """Return the forecast seconds of each layout, and the part of them that is of measured ops."""
        _say(self._processes[0], {"profile": str(profile)})
        return [(float(seconds), float(known)) for seconds, known in _hear(self._processes[0])]

    def _own(self) -> float:
        """Return the processor time of the processes so far, in seconds."""
        total = 0
        for process in self._processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / _TICKS


def _busy() -> float:
    """Return the seconds that all processors have been busy so far, including the work of other machines."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, interrupts, soft, stolen = map(int, fields)
    return (user + nice + system + interrupts + soft + stolen) / _TICKS


def _say(process: subprocess.Popen[str], request: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    there, _, _ = select.select([process.stdout], [], [], PATIENCE)
    line = process.stdout.readline() if there else ""
    if not line:
        raise Failed(f"has not answered for {PATIENCE} s" if not there else "has ended")
    return json.loads(line)
