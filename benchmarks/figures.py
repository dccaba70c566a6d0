"""Records of what is measured of contenders, commands, clusters and readers."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from attrs import field, frozen


@frozen
class Running:
    """A contender that has made its first step.

    Attributes:
        build: The seconds that building the graph took (for eager peers: model, optimizer and strategy).
        advance: Makes a number of steps one after the other, and returns the seconds that they took.
        first_step: The seconds from the start of the process to the end of the first step.
        graph_ops: The number of ops in the graph.
        trace: The seconds of tracing one tower.
    """

    build: float
    advance: Callable[[int], float]
    first_step: float
    graph_ops: int = 0
    trace: float = 0.0


@frozen
class Built:
    """A contender that has built its graph and makes no steps.

    Attributes:
        build: The seconds that building the graph took.
        graph_ops: The number of ops in the graph.
        trace: The seconds of tracing one tower.
    """

    build: float
    graph_ops: int
    trace: float = 0.0


@frozen
class Figures:
    """The measurements of one process. A field that was not measured is zero or empty.

    Attributes:
        contender: The name of the contender.
        model: The name of the model.
        towers: The number of towers.
        build: The seconds that building the graph took.
        first_step: The seconds from the start of the process to the end of the first step.
        rates: The steps per second in each turn.
        cpu: The seconds of processor time per step in each turn.
        peak_memory: The largest resident set in bytes.
        graph_ops: The number of ops in the graph.
        trace: The seconds of tracing one tower.
        date: The day, if it is not that of the other results.
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
    date: str = ""


@frozen
class Launch:
    """The processor time of a command that runs as a process.

    Attributes:
        command: The command.
        seconds: The seconds of processor time, user and system, of each run.
    """

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
    """Return a function that calls `step` a number of times and returns the seconds that this took."""

    def advance(steps: int) -> float:
        began = time.perf_counter()
        for _ in range(steps):
            step()
        return time.perf_counter() - began

    return advance


@frozen
class ClusterRates:
    """Steps per second of two contenders on a cluster.

    Attributes:
        model: The name of the model.
        ours: The rate of tfdeploy in each round.
        theirs: The rate of the peer in each round.
        date: The day of the measurement; empty for that of the whole page.
        mode: The update mode.
        peer: The class of TensorFlow that is the peer.
    """

    model: str
    ours: list[float]
    theirs: list[float]
    date: str = ""
    mode: str = "async"
    peer: str = "ParameterServerStrategy"

    @property
    def ratios(self) -> list[float]:
        """Our rate over that of the peer, round by round."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]


RESIZED_AS_FLOATS = "tf.data, resized as floats"
"""The reader by hand that casts images before it resizes them, as ours does: it is shown, but no target."""


@frozen
class Reading:
    """The measurements of a reader of files.

    Attributes:
        files: The kind of files.
        reader: The name of the reader.
        date: The day of the measurement.
        rates: The examples per second in each turn.
        cpu: The seconds of processor time per example in each turn.
    """

    files: str
    reader: str
    date: str
    rates: tuple[float, ...] = field(converter=tuple)
    cpu: tuple[float, ...] = field(converter=tuple)


@frozen
class ServerMemory:
    """The peak memory of the servers of a run.

    Attributes:
        optimizer: The optimizer.
        own: The bytes of a server's piece with its slots.
        fresh: The largest peak of a server that initialised, trained and saved the table, in bytes. The peak
            of the same run with few rows is subtracted.
        resumed: The largest peak of a server that restored the table, in bytes, with the same subtracted.
        date: The day of the measurement.
    """

    optimizer: str
    own: int
    fresh: int
    resumed: int
    date: str

    @property
    def largest(self) -> float:
        """The larger of the peaks over the bytes that a server keeps."""
        return max(self.fresh, self.resumed) / self.own


@frozen
class ManyClones:
    """What the plan of many clones takes.

    Attributes:
        case: The name of the deployment.
        seconds: The processor time of the command, user and system.
        peak: The most memory of its process, in bytes.
        date: The day of the measurement.
    """

    case: str
    seconds: float
    peak: float
    date: str


@frozen
class Pipelining:
    """A way for the two devices of a clone to take its micro-batches.

    Attributes:
        schedule: The schedule; `none` takes one micro-batch after the other, with a thread for the device
            that has work, and `shared` with both threads.
        rates: The steps per second, turn by turn.
        date: The day of the measurement.
        allocated: The peak of tensors in a step on the first device that TensorFlow's allocator counts.
        forecast: The forecast of that.
        seconds: The forecast of the time of a step.
        bubble: The part of that for which stages wait, as it is forecast; None without stages.
    """

    schedule: str
    rates: tuple[float, ...] = field(converter=tuple)
    date: str
    allocated: int
    forecast: int
    seconds: float
    bubble: float | None = None

    @property
    def forecast_ratio(self) -> float:
        """The forecast of the time of a step over what the median step took."""
        return self.seconds * median(self.rates)


@frozen
class Recomputing:
    """A way to train a model with less memory, or without.

    Attributes:
        model: The model.
        way: The way; `none` and `keras` are those without.
        rates: The steps per second, turn by turn; none if the way has failed.
        date: The day of the measurement.
        resident: The peak of the resident memory above what there was once TensorFlow was loaded.
        allocated: The peak of tensors in a step that TensorFlow's allocator counts; 0 if not asked.
        forecast: The forecast of that; 0 if there is none.
        activations: The same peak without gradients of weights and what updates weights; 0 if not asked.
    """

    model: str
    way: str
    rates: tuple[float, ...] = field(converter=tuple)
    date: str
    resident: int = 0
    allocated: int = 0
    forecast: int = 0
    activations: int = 0
