"""What one process measures of one contender."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

from attrs import asdict, frozen


@frozen
class Figures:
    """Seconds, steps per second and bytes of one process.

    `build` is the time to make the graph (for eager peers: model, optimizer and strategy), `first_step` the
    time from the start of the process to the end of the first step, `steps_per_second` the rate of the steps
    after the warm-up, `peak_memory` the largest resident set.
    """

    contender: str
    model: str
    towers: int
    build: float
    first_step: float
    steps_per_second: float
    peak_memory: int
    graph_ops: int = 0
    loss: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """Return the figures as plain values."""
        return asdict(self)


def since_process_start() -> float:
    """Return the seconds since the operating system started this process."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")


def peak_memory() -> int:
    """Return the largest resident set of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def rate(step: Callable[[], object], steps: int, warm_up: int = 3) -> float:
    """Return the steps per second of `steps` calls after `warm_up` calls."""
    for _ in range(warm_up):
        step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return steps / (time.perf_counter() - began)
