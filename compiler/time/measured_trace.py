"""A real step beneath a forecast one: the times of ops in the trace of a run, beside those of the forecast.

The trace is `profile/trace.json` of a run with `--profile`, in the format of Chrome's trace viewer. Its times
are of steps with a trace, which takes time itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from compiler.figures import gathered
from compiler.time.forecast import StepForecast
from compiler.time.work import StepWork
from dsl.files.typed_json import NAME, read_record

LIMIT = 1 << 28
"""The largest trace that is read, in bytes."""


@frozen
class TraceEvent:
    """An event of a trace in Chrome's format."""

    ph: str  # the phase; only complete events (`X`) are looked at
    dur: float = 0.0  # the duration in microseconds
    args: Any = None  # what the event says about its op
    ts: float = 0.0  # the start in microseconds


@frozen
class RunTrace:
    """The trace of some steps of a run."""

    events: tuple[TraceEvent, ...] = field(metadata={NAME: "traceEvents"}, repr=False)

    @property
    def steps(self) -> int:
        """How many steps it is of: as often as most ops ran."""
        counts = Counter(each.args["name"] for each in self._of_ops())
        return Counter(counts.values()).most_common(1)[0][0] if counts else 0

    def seconds(self) -> Mapping[str, float]:
        """Return the mean seconds of each op in a step, by its name in the graph."""
        sums: dict[str, float] = defaultdict(float)
        for each in self._of_ops():
            sums[each.args["name"]] += each.dur * 1e-6
        return {name: total / self.steps for name, total in sums.items()}

    def typical_step(self) -> Mapping[str, tuple[tuple[float, float], ...]]:
        """Return when each op began in the step of median length, and for how long it ran, in seconds."""
        runs: dict[str, list[TraceEvent]] = defaultdict(list)
        for each in sorted(self._of_ops(), key=lambda each: each.ts):
            runs[each.args["name"]].append(each)
        count = self.steps
        steps: list[dict[str, list[TraceEvent]]] = [{} for _ in range(count)]
        for name, events in runs.items():
            for number, event in enumerate(events):
                steps[number * count // len(events)].setdefault(name, []).append(event)
        if not steps:
            return {}
        chosen = sorted(steps, key=_length)[count // 2]
        begin = min(each.ts for events in chosen.values() for each in events)
        return {
            name: tuple(((each.ts - begin) * 1e-6, each.dur * 1e-6) for each in events)
            for name, events in chosen.items()
        }

    def length(self) -> float:
        """Return the seconds from the first op to the end of the last one, in the step of median length."""
        ends = (start + long for runs in self.typical_step().values() for start, long in runs)
        return max(ends, default=0.0)

    def _of_ops(self) -> list[TraceEvent]:
        return [
            each
            for each in self.events
            if each.ph == "X" and isinstance(each.args, dict) and isinstance(each.args.get("name"), str)
        ]


def _length(step: Mapping[str, list[TraceEvent]]) -> float:
    """Return the microseconds from the first op of a step to the end of the last."""
    events = [each for listed in step.values() for each in listed]
    if not events:
        return 0.0
    return max(each.ts + each.dur for each in events) - min(each.ts for each in events)


@frozen
class _Compared:
    """A forecast time and a measured one, in seconds of a step."""

    forecast: float
    measured: float  # the measured time; 0 if the trace has nothing of it

    @property
    def difference(self) -> float:
        """How much longer it took than forecast; negative if it was shorter."""
        return self.measured - self.forecast


@frozen
class OpTimes(_Compared):
    """An op, forecast and measured."""

    name: str
    scope: str  # the layer or part of the step that it belongs to
    device: str


@frozen
class AlikeTimes(_Compared):
    """The same op of some clones together, or an op that is of no clone."""

    name: str  # the name of that of them whose times differ most
    device: str
    ops: int


@frozen
class Beneath:
    """A trace beneath a forecast."""

    steps: int
    # The ops of the step, those with the largest difference first.
    ops: tuple[OpTimes, ...] = field(repr=False)
    unknown: float  # the measured seconds of what the forecast does not have, such as metrics

    @property
    def forecast(self) -> float:
        """The forecast seconds of all ops together."""
        return sum(each.forecast for each in self.ops)

    @property
    def measured(self) -> float:
        """The measured seconds of the same ops."""
        return sum(each.measured for each in self.ops)


def read_trace(path: Path | str) -> RunTrace:
    """Read the trace of a run; raises BadRecord if the file is none."""
    return read_record(path, RunTrace, LIMIT)


def lay_beneath(forecast: StepForecast, trace: RunTrace) -> Beneath:
    """Return the ops of a forecast with their times in the trace of a run."""
    measured = dict(trace.seconds())
    times: dict[int, float] = defaultdict(float)
    for bar in forecast.simulated.bars:
        times[bar.op] += (bar.end - bar.start) / forecast.simulated.updates
    found = [
        OpTimes(times[at], measured.pop(op.name, 0.0), op.name, op.scope, op.device.ref)
        for at, op in enumerate(forecast.work.ops)
    ]
    found.sort(key=lambda each: (-abs(each.difference), each.name))
    return Beneath(trace.steps, tuple(found), sum(measured.values()))


def join_alike(beneath: Beneath, work: StepWork) -> tuple[AlikeTimes, ...]:
    """Return the times of ops with those of the same op of other clones, the largest differences first."""
    inner = {op.name: op.name if op.clone is None else op.name.partition("/")[2] for op in work.ops}
    # The name of an op of a clone says the same only of ops of clones.
    of_clones = {op.name for op in work.ops if op.clone is not None}
    groups = gathered(((each.name in of_clones, inner[each.name]), each) for each in beneath.ops)
    joined = []
    for listed in groups.values():
        times = sum(each.forecast for each in listed), sum(each.measured for each in listed)
        joined.append(AlikeTimes(*times, listed[0].name, listed[0].device, len(listed)))
    return tuple(sorted(joined, key=lambda each: (-abs(each.difference), each.name)))
