"""The timeline of a forecast step as the page has it, with a measured step beneath it if there is one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from compiler.figures import gathered
from compiler.report.page.tree import Numbers
from compiler.time.forecast import StepForecast, covered
from compiler.time.measured_trace import RunTrace, join_alike, lay_beneath

_NUMBER = re.compile(r"(?<!\d)(?:0|[1-9]\d{0,8})(?!\d)")
"""A number in a name that is the same if it is read and written again."""

NAMED = 50
"""The most ops whose measured times are compared with the forecast in a table."""

TOLD = 5
"""The most ops, those of clones together, of which a sentence says how their times differ."""

ROWS = 64
"""The most devices and the most links that have a row; the busiest are kept."""


def timeline_data(forecast: StepForecast, trace: RunTrace | None = None) -> dict[str, Any]:
    """Return the timeline, with times in microseconds from the start of the step.

    Returns:
        `alone` is whether clones update by themselves, so that `seconds` is the time from update to update.
        `around` is what the step costs before its first op and after its last one, which no row shows.
        `rows`, each with its `label`, how `busy` it is (from 0 to 1), the number of its `lanes`, and its
        `bars`: `[name, lane, start, length, 1 if it is on the critical path, bytes]`, in the order of their
        start. An op has no bytes, and no fifth part if it is not on the critical path. A device has a lane
        for each thread; a link has one. `measured` has the bars of the trace, `[name, lane, start, length]`,
        in lanes of their own, and `measured_busy` is the part of the measured step in which they run (from 0
        to 1). A name is a number into `names`, each of which is the number of one of `forms` and what stands
        there in place of each `#`.
        `left` is the number of rows that are left out. `beneath` compares op by op.
    """
    names = Numbers()
    devices, links = _device_bars(forecast), _link_bars(forecast)
    busy = {each.ref: each.busy for each in forecast.devices}
    busy |= {_way(each.from_device, each.to_device): each.busy for each in forecast.links}
    ran = {} if trace is None else _measured_bars(forecast, trace)
    kept = [*_busiest(devices, busy), *_busiest(links, busy)]
    length = 0.0 if trace is None else round(trace.length() * 1e6, 3)
    whole = round(forecast.simulated.seconds * 1e6, 3)
    return {
        "seconds": forecast.seconds,
        "alone": bool(forecast.work.loops),
        "around": round(forecast.around * 1e6, 3),
        "until": max(whole, length),
        "estimate": forecast.estimate,
        "source": forecast.source,
        "rows": [
            {
                "label": label,
                "busy": round(busy[label], 4),
                **_in_lanes(devices.get(label) or links.get(label) or [], "bars", "lanes", names),
                **_in_lanes(ran.get(label, []), "measured", "measured_lanes", names),
                "measured_busy": _share(ran.get(label, []), length),
            }
            for label in kept
        ],
        "left": len(devices) + len(links) - len(kept),
        "beneath": None if trace is None else {"length": length, **_beneath(forecast, trace, names)},
        **_in_forms(names.values()),
    }


def _in_forms(names: Iterable[str]) -> dict[str, Any]:
    """Return names without what recurs in them: most differ in numbers alone."""
    forms = Numbers()
    listed = [[forms.of(_NUMBER.sub("#", name)), *map(int, _NUMBER.findall(name))] for name in names]
    return {"forms": forms.values(), "names": listed}


def _device_bars(forecast: StepForecast) -> dict[str, list[list[Any]]]:
    bars: dict[str, list[list[Any]]] = {each.ref: [] for each in forecast.work.devices}
    critical = {(each.device, each.name) for each in forecast.path if each.what == "op"}
    for bar in forecast.simulated.bars:
        op = forecast.work.ops[bar.op]
        on_path = (op.device.ref, op.name) in critical
        bars[op.device.ref].append([op.name, bar.thread, *_span(bar.start, bar.end), *[1] * on_path])
    return bars


def _link_bars(forecast: StepForecast) -> dict[str, list[list[Any]]]:
    critical = {(each.device, each.name) for each in forecast.path if each.what == "transfer"}
    hops = ((_way(each.source.ref, each.target.ref), each) for each in forecast.simulated.hops)
    return gathered(
        (way, [hop.tensor, 0, *_span(hop.start, hop.end), int((way, hop.tensor) in critical), hop.bytes])
        for way, hop in hops
    )


def _busiest(bars: Mapping[str, object], busy: Mapping[str, float]) -> list[str]:
    """Return the labels of the busiest rows, in the order in which they are listed."""
    kept = set(sorted(bars, key=lambda each: -busy[each])[:ROWS])
    return [each for each in bars if each in kept]


def _measured_bars(forecast: StepForecast, trace: RunTrace) -> dict[str, list[list[Any]]]:
    """Return the measured runs of the ops that the forecast has, by their devices, each in a free lane."""
    step = trace.typical_step()
    bars: dict[str, list[list[Any]]] = gathered(
        (op.device.ref, [op.name, 0, *_span(start, start + seconds)])
        for op in forecast.work.ops
        for start, seconds in step.get(op.name, ())
    )
    for listed in bars.values():
        listed.sort(key=lambda each: each[2])
        free: list[float] = []
        for bar in listed:
            lane = next((at for at, until in enumerate(free) if until <= bar[2]), len(free))
            free[lane : lane + 1] = [bar[2] + bar[3]]
            bar[1] = lane
    return bars


def _share(bars: Iterable[list[Any]], length: float) -> float:
    """Return for how much of a length some bar runs."""
    return round(covered((start, start + long) for _, _, start, long in bars) / length, 4) if length else 0.0


def _beneath(forecast: StepForecast, trace: RunTrace, names: Numbers) -> dict[str, Any]:
    """Return the sums, the ops that differ most, and `told`: `[name, device, ops, forecast, measured]`.

    `share` is the sum of the differences that are described, divided by the sum of all, without signs.
    """
    found = lay_beneath(forecast, trace)
    joined = [each for each in join_alike(found, forecast.work) if each.difference]
    told = joined[:TOLD]
    together = sum(abs(each.difference) for each in joined)
    return {
        "steps": found.steps,
        "forecast": found.forecast * 1e6,
        "measured": found.measured * 1e6,
        "unknown": found.unknown * 1e6,
        # Clones that update by themselves are forecast for several updates at once, and traced for one.
        "span": forecast.simulated.seconds * 1e6 if forecast.simulated.updates == 1 else None,
        "share": sum(abs(each.difference) for each in told) / together if together else 0.0,
        "told": [
            [names.of(each.name), each.device, each.ops, each.forecast * 1e6, each.measured * 1e6]
            for each in told
        ],
        "ops": [
            [names.of(each.name), each.device, round(each.forecast * 1e6, 3), round(each.measured * 1e6, 3)]
            for each in found.ops[:NAMED]
            if each.difference
        ],
    }


def _in_lanes(bars: Iterable[list[Any]], key: str, count: str, names: Numbers) -> dict[str, Any]:
    """Return bars whose lanes are numbered from 0 in the order of their threads, and the number of lanes."""
    listed = list(bars)
    lanes = {thread: lane for lane, thread in enumerate(sorted({each[1] for each in listed}))}
    placed = [[names.of(name), lanes[thread], *rest] for name, thread, *rest in listed]
    placed.sort(key=lambda each: (each[2], each[1]))
    return {key: placed, count: len(lanes)}


def _way(source: str, target: str) -> str:
    return f"{source} -> {target}"


def _span(start: float, end: float) -> tuple[float, float]:
    return _microseconds(start), _microseconds(end - start)


def _microseconds(seconds: float) -> float:
    """Return a time as it is shortest to write."""
    found = round(seconds * 1e6, 3)
    return int(found) if found.is_integer() else found
