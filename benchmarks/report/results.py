"""The results of a run of the benchmarks, and ratios of them; above 1 ours is better."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from attrs import asdict, frozen

from benchmarks.figures import (
    RESIZED_AS_FLOATS,
    ClusterRates,
    Figures,
    Launch,
    ManyClones,
    Pipelining,
    Reading,
    Recomputing,
    ServerMemory,
)

KIB_IN_GIB = 2**20


@frozen
class Machine:
    """The machine and the day of the measurements.

    Attributes:
        date: The day.
        cores: The number of cores.
        memory: The memory in GiB.
        python: The version of Python.
        tensorflow: The version of TensorFlow.
        keras: The version of Keras.
    """

    date: str
    cores: int
    memory: int
    python: str
    tensorflow: str
    keras: str

    @classmethod
    def here(cls) -> Machine:
        """Return the machine that runs this process, and today."""
        total = next(
            int(line.split()[1])
            for line in Path("/proc/meminfo").read_text().splitlines()
            if line.startswith("MemTotal")
        )
        return cls(
            datetime.now(UTC).date().isoformat(),
            len(os.sched_getaffinity(0)),
            round(total / KIB_IN_GIB),
            platform.python_version(),
            version("tensorflow"),
            version("keras"),
        )


@frozen
class Spread:
    """The median and the range of several ratios.

    Attributes:
        low: The lowest.
        median: The median.
        high: The highest.
    """

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Return the spread of some values, or None if there are none."""
        return cls(min(values), statistics.median(values), max(values)) if values else None

    def __str__(self) -> str:
        if self.low == self.high:
            return f"{self.median:.2f}"
        return f"{self.median:.2f} ({self.low:.2f} to {self.high:.2f})"


@frozen
class Ratio:
    """A ratio of a contender's figure to ours, with its name, for the table and the chart.

    Attributes:
        model: The name of the model.
        towers: How many towers the model had.
        peer: The contender that is compared with ours.
        measure: What was measured, such as `steps per second`.
        spread: The ratio over all rounds. Above 1, ours is better.
    """

    model: str
    towers: int
    peer: str
    measure: str
    spread: Spread


@frozen
class Results:
    """All figures of one run of the benchmarks.

    Attributes:
        machine: The machine and the day.
        races: Rates of training.
        builds: Times of compiling graphs, without training.
        launches: Times of commands.
        clusters: Rates of training on clusters.
        readings: Rates of reading files.
        servers: The memory of servers.
        many: What plans of many clones take.
        recomputings: The memory and the steps of ways to train with less memory.
        pipelinings: The steps and the memory of two devices that take micro-batches.
        replicas: Rates of workers that have all weights, with the aggregation as their mode.
    """

    machine: Machine
    races: tuple[Figures, ...] = ()
    builds: tuple[Figures, ...] = ()
    launches: tuple[Launch, ...] = ()
    clusters: tuple[ClusterRates, ...] = ()
    readings: tuple[Reading, ...] = ()
    servers: tuple[ServerMemory, ...] = ()
    many: tuple[ManyClones, ...] = ()
    recomputings: tuple[Recomputing, ...] = ()
    pipelinings: tuple[Pipelining, ...] = ()
    replicas: tuple[ClusterRates, ...] = ()

    def to_json(self) -> str:
        """Return the results as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Return results from the text that `to_json` has made."""
        found = json.loads(text)
        return cls(
            Machine(**found["machine"]),
            tuple(Figures(**each) for each in found["races"]),
            tuple(Figures(**each) for each in found["builds"]),
            tuple(Launch(**each) for each in found["launches"]),
            tuple(ClusterRates(**each) for each in found["clusters"]),
            tuple(Reading(**each) for each in found.get("readings", ())),
            tuple(ServerMemory(**each) for each in found.get("servers", ())),
            tuple(ManyClones(**each) for each in found.get("many", ())),
            tuple(Recomputing(**each) for each in found.get("recomputings", ())),
            tuple(Pipelining(**each) for each in found.get("pipelinings", ())),
            tuple(ClusterRates(**each) for each in found.get("replicas", ())),
        )

    def raced(self, model: str, towers: int, contender: str) -> list[Figures]:
        """Return a contender's figures in a race, round by round."""
        return [
            each
            for each in self.races
            if (each.model, each.towers, each.contender) == (model, towers, contender)
        ]

    def built(self, contender: str, model: str, towers: int) -> Figures | None:
        """Return the measurements of building alone."""
        key = (contender, model, towers)
        return next((each for each in self.builds if (each.contender, each.model, each.towers) == key), None)

    def speed(self, model: str, towers: int, peer: str, whose: str = "ours") -> Spread | None:
        """Return the steps per second of ours (or of another contender) over a peer's, turn by turn."""
        ours, theirs = self.raced(model, towers, whose), self.raced(model, towers, peer)
        pairs = zip(ours, theirs, strict=False)
        return Spread.of(
            [a / b for mine, other in pairs for a, b in zip(mine.rates, other.rates, strict=False)]
        )

    def saving(
        self, model: str, towers: int, peer: str, measure: Callable[[Figures], float]
    ) -> Spread | None:
        """Return a peer's seconds or bytes over ours, round by round."""
        ours, theirs = self.raced(model, towers, "ours"), self.raced(model, towers, peer)
        return Spread.of([measure(b) / measure(a) for a, b in zip(ours, theirs, strict=False) if measure(a)])

    def on_cluster(self, model: str, peer: str) -> Spread | None:
        """Return our steps per second on a cluster over those of a peer, round by round."""
        found = [each for each in self.clusters if (each.model, each.peer) == (model, peer)]
        return Spread.of([ratio for each in found for ratio in each.ratios])

    def recomputing(self, model: str, way: str) -> Recomputing | None:
        """Return what was measured of a way to train a model, if it did not fail."""
        found = (each for each in self.recomputings if (each.model, each.way) == (model, way))
        return next((each for each in found if each.rates), None)

    def piped(self, schedule: str) -> Spread | None:
        """Return the steps per second of a schedule over those of one micro-batch after the other."""
        rates = {each.schedule: each.rates for each in self.pipelinings}
        if not {schedule, "none"} <= {*rates}:
            return None
        return Spread.of([a / b for a, b in zip(rates[schedule], rates["none"], strict=True)])

    def recomputed(self, model: str, measure: Callable[[Recomputing], Sequence[float]]) -> Spread | None:
        """Return what ours measures with `recompute = memory(...)` over the same without, turn by turn."""
        ours, plain = self.recomputing(model, "memory"), self.recomputing(model, "none")
        if ours is None or plain is None:
            return None
        return Spread.of([a / b for a, b in zip(measure(ours), measure(plain), strict=True)])

    def held_by_servers(self) -> Spread | None:
        """Return the peaks of servers over what they keep, optimizer by optimizer."""
        return Spread.of([each.largest for each in self.servers])

    def launched(self, command: str, baseline: str) -> Spread | None:
        """Return the processor time of a command over that of another, run by run."""
        by_name = {each.command: each.seconds for each in self.launches}
        if command not in by_name or baseline not in by_name:
            return None
        return Spread.of([a / b for a, b in zip(by_name[command], by_name[baseline], strict=True)])

    def read(self, files: str, reader: str, measure: Callable[[Reading], Sequence[float]]) -> Spread | None:
        """Return what ours measures over what `reader` does on a kind of files, turn by turn."""
        found = {each.reader: measure(each) for each in self.readings if each.files == files}
        if "ours" not in found or reader not in found:
            return None
        return Spread.of([a / b for a, b in zip(found["ours"], found[reader], strict=True)])

    def read_by_hand(self, files: str) -> Spread | None:
        """Return our examples per second over those of the best other reader as they are usually written."""
        others = [
            self.read(files, each.reader, lambda reading: reading.rates)
            for each in self.readings
            if each.files == files and each.reader not in {"ours", RESIZED_AS_FLOATS}
        ]
        return min(filter(None, others), key=lambda each: each.median, default=None)


def read_results(folder: Path) -> Results:
    """Return the results in a folder; without any, results without measurements of this machine."""
    data = folder / "benchmarks.json"
    return Results.from_json(data.read_text()) if data.exists() else Results(Machine.here())


def with_races(old: Sequence[Figures], new: Sequence[Figures]) -> tuple[Figures, ...]:
    """Return figures in which new ones have taken the place of those of the same races.

    Args:
        old: The figures that were there.
        new: The figures of the races that have been run again.
    """
    again = {(each.model, each.towers) for each in new}
    order = list(dict.fromkeys((each.model, each.towers) for each in (*old, *new)))
    kept = [*(each for each in old if (each.model, each.towers) not in again), *new]
    return tuple(sorted(kept, key=lambda each: order.index((each.model, each.towers))))
