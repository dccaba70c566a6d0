"""What is measured of a contender, and of commands."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import field, frozen


@frozen
class Running:
    """A contender that has made its first step.

    `build` are the seconds that its graph took (for eager peers: model, optimizer and strategy). `advance`
    makes so many steps, one after the other, and returns the seconds they took.
    """

    build: float
    advance: Callable[[int], float]
    first_step: float
    graph_ops: int = 0
    trace: float = 0.0


@frozen
class Built:
    """A contender that has built its graph and does no step; `trace` are the seconds of tracing one tower."""

    build: float
    graph_ops: int
    trace: float = 0.0


@frozen
class Figures:
    """What one process came to.

    `first_step` are the seconds from the start of the process to the end of the first step, `rates` the steps
    per second of each turn, `cpu` the seconds of processor time of a step in each, `peak_memory` the bytes of
    the largest resident set. What was not measured is zero or empty.
    """

    contender: str
    model: str
    towers: int
    build: float
    first_step: float = 0.0
    rates: tuple[float, ...] = field(default=(), converter=tuple)
    cpu: tuple[float, ...] = field(default=(), converter=tuple)
    peak_memory: int = 0
    graph_ops: int = 0
    trace: float = 0.0


@frozen
class Launch:
    """How long a command takes as a process: seconds of processor time, user and system, of each run."""

    command: str
    seconds: tuple[float, ...] = field(converter=tuple)


def since_process_start() -> float:
    """Return the seconds since the operating system started this process."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")


def peak_memory() -> int:
    """Return the largest resident set of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def repeating(step: Callable[[], Any]) -> Callable[[int], float]:
    """Return a function that calls `step` so many times and returns the seconds that this took."""

    def advance(steps: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            step()
        return time.perf_counter() - began

    return advance


@frozen
class ClusterRates:
    """Steps per second of both contenders on a cluster, round by round, for a model."""

    model: str
    ours: list[float]
    parameter_server: list[float]


@frozen
class Reading:
    """What a reader of some files came to on a day: examples per second, and seconds of processor time.

    The latter are those of one example; both are given turn by turn.
    """

    files: str
    reader: str
    date: str
    rates: tuple[float, ...] = field(converter=tuple)
    cpu: tuple[float, ...] = field(converter=tuple)
