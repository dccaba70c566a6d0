"""The forecast of a step: how long it takes, how busy devices and links are, and what decides its length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from attrs import field, fields, frozen

from compiler.figures import gathered
from compiler.mapping.records import DeviceTime, LinkTime, MapPathPart, MapTime
from compiler.time.costs import Costs
from compiler.time.simulation.simulate import simulate
from compiler.time.simulation.simulated import Bar, Simulated
from compiler.time.work import NO_RULE, StepWork


@frozen
class PathPart:
    """A part of the critical path: of the chain of ops, transfers and waiting that a step is as long as.

    Attributes:
        what: `op`, `transfer`, `wait` for a free thread, or `start` for what a step costs around its ops.
        name: The name of the op or of the tensor; empty for `start`.
        device: The device of the op, or the two devices of the transfer.
        scope: The layer or part of the step that it belongs to.
        rule: What placed the op, as text.
        start: When it begins, in seconds from the start of the step.
        seconds: How long it takes.
    """

    what: str
    name: str
    device: str
    scope: str
    rule: str
    start: float
    seconds: float


@frozen(kw_only=True)
class StepForecast(MapTime):
    """The forecast of a step: what the placement map has of it, and what that is from.

    Attributes:
        path: The critical path, from the start of the step to its end; empty if clones update by themselves.
        simulated: When each op ran.
        work: The work that was simulated.
    """

    path: tuple[PathPart, ...] = field(repr=False)
    simulated: Simulated = field(repr=False)
    work: StepWork = field(repr=False)

    @property
    def around(self) -> float:
        """What the step costs before its first op and after its last one, in seconds.

        It is 0 if clones update by themselves: a round of one begins while ops of others run.
        """
        return 0.0 if self.work.loops else self.seconds - self.simulated.seconds

    def for_map(self) -> MapTime:
        """Return the forecast as the placement map has it."""
        return MapTime(**{each.name: getattr(self, each.name) for each in fields(MapTime)})


def forecast_step(work: StepWork, costs: Costs) -> StepForecast:
    """Return the forecast of a step.

    Args:
        work: The ops of the step; `work.moved` gives the same ops on other devices.
        costs: What they cost on the machines.
    """
    found = simulate(work, costs)
    around = 0.0 if work.loops else costs.step_start
    span = found.seconds + around
    path = () if work.loops else tuple(_path(work, found, costs))
    return StepForecast(
        seconds=found.seconds / found.updates + around,
        estimate=costs.estimate,
        measured=_measured(work, costs),
        source=costs.source,
        devices=tuple(_devices(work, found, span)),
        links=tuple(_links(found, span)),
        by_scope=_summed((each.scope, each.seconds) for each in path),
        by_rule=_summed((each.rule, each.seconds) for each in path),
        bubble=_bubble(work, found),
        path=path,
        simulated=found,
        work=work,
    )


def _measured(work: StepWork, costs: Costs) -> float:
    total = known = 0.0
    for op in work.ops:
        cost = costs.of(op)
        total += cost.alone
        known += 0.0 if cost.estimated else cost.alone
    return known / total if total else 1.0


def _devices(work: StepWork, found: Simulated, span: float) -> Iterator[DeviceTime]:
    times: dict[str, list[tuple[float, float]]] = {each.ref: [] for each in work.devices}
    for bar in found.bars:
        times[work.ops[bar.op].device.ref].append((bar.start, bar.end))
    for ref, intervals in times.items():
        seconds = covered(intervals)
        yield DeviceTime(ref, seconds / found.updates, seconds / span if span else 0.0)


def _bubble(work: StepWork, found: Simulated) -> float | None:
    """Return the part of the time that stages of pipelines wait, from the first op of a clone to its last."""
    of_clones = (bar for bar in found.bars if work.ops[bar.op].clone is not None)
    spans = gathered((work.ops[bar.op].device.ref, (bar.start, bar.end)) for bar in of_clones)
    whole = waited = 0.0
    for devices in work.pipelines:
        bars = [spans[each.ref] for each in devices if each.ref in spans]
        if bars:
            begin, end = min(min(each)[0] for each in bars), max(bar[1] for each in bars for bar in each)
            whole += len(bars) * (end - begin)
            waited += sum(end - begin - covered(each) for each in bars)
    return waited / whole if whole else None


def _links(found: Simulated, span: float) -> Iterator[LinkTime]:
    together = gathered(((hop.source.ref, hop.target.ref), hop) for hop in found.hops)
    for (source, target), hops in together.items():
        seconds = covered((each.start, each.end) for each in hops)
        size = ceil(sum(each.bytes for each in hops) / found.updates)
        yield LinkTime(source, target, seconds / found.updates, seconds / span, size)


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of intervals."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def _summed(pairs: Iterable[tuple[str, float]]) -> tuple[MapPathPart, ...]:
    """Return the seconds of each name together, the longest first."""
    sums: dict[str, float] = defaultdict(float)
    for name, seconds in pairs:
        sums[name] += seconds
    ranked = sorted(sums.items(), key=lambda each: (-each[1], each[0]))
    return tuple(MapPathPart(*each) for each in ranked)


# --- the critical path --------------------------------------------------------------------------------------


def _path(work: StepWork, found: Simulated, costs: Costs) -> Iterator[PathPart]:
    """Yield the parts of the critical path in the order of time, so that they add up to the step."""
    if found.bars:
        yield from reversed(list(_back(work, found)))
    yield PathPart("start", "", "", "(start and end of a step)", NO_RULE, found.seconds, costs.step_start)


def _back(work: StepWork, found: Simulated) -> Iterator[PathPart]:
    """Yield the parts from the last op back to the first: each begins when the one yielded next ends."""
    bars: Sequence[Bar] = found.bars
    at: int | None = max(range(len(bars)), key=lambda each: bars[each].end)
    while at is not None:
        bar = bars[at]
        op = work.ops[bar.op]
        yield PathPart("op", op.name, op.device.ref, op.scope, op.rule, bar.start, bar.end - bar.start)
        began = bars[bar.after].end if bar.after is not None else 0.0
        until = bar.start
        if bar.over is not None:
            hop = found.hops[bar.over]
            if until > hop.end:
                yield PathPart("wait", op.name, op.device.ref, op.scope, op.rule, hop.end, until - hop.end)
            way = f"{hop.source.ref} -> {hop.target.ref}"
            yield PathPart("transfer", hop.tensor, way, op.scope, op.rule, began, hop.end - began)
        elif until > began:
            yield PathPart("wait", op.name, op.device.ref, op.scope, op.rule, began, until - began)
        at = bar.after
