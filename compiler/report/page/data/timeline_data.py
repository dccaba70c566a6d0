"""The timeline of a forecast step as the page has it, with a measured step beneath it if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from compiler.report.page.data.numbers import Numbers
from compiler.time.forecast import StepForecast
from compiler.time.measured_trace import RunTrace, lay_beneath

NAMED = 50
"""The most ops whose measured times are compared with the forecast in a table."""

ROWS = 64
"""The most devices and the most links that have a row; the busiest are kept."""


def timeline_data(forecast: StepForecast, source: str, trace: RunTrace | None = None) -> dict[str, Any]:
    """Return the timeline, with times in microseconds from the start of the step.

    Args:
        forecast: The forecast of the step.
        source: What it was made from: the file of a profile, or the name of the hardware.
        trace: The trace of a run, one step of which is laid beneath the forecast.

    Returns:
        `around` is what the step costs before its first op and after its last one, which no row shows.
        `rows`, each with its `label`, how `busy` it is (from 0 to 1), the number of its `lanes`, and its
        `bars`: `[name, lane, start, length, whether it is on the critical path, bytes or -1 for an op]`, in
        the order of their start. A device has a lane for each thread; a link has one. `measured` has the bars
        of the trace, `[name, lane, start, length]`, in lanes of their own. A name is a number into `names`.
        `left` is the number of rows that are left out. `beneath` compares op by op.
    """
    names = Numbers()
    devices, links = _device_bars(forecast, names), _link_bars(forecast, names)
    busy = {each.ref: each.busy for each in forecast.devices}
    busy |= {_way(each.from_device, each.to_device): each.busy for each in forecast.links}
    ran = {} if trace is None else _measured_bars(forecast, trace, names)
    kept = [*_busiest(devices, busy), *_busiest(links, busy)]
    ends = [bar[2] + bar[3] for bars in ran.values() for bar in bars]
    whole = round(forecast.simulated.seconds * 1e6, 3)
    return {
        "seconds": forecast.seconds,
        "around": round(forecast.around * 1e6, 3),
        "until": round(max([whole, *ends]), 3),
        "estimate": forecast.estimate,
        "source": source,
        "rows": [
            {
                "label": label,
                "busy": round(busy[label], 4),
                **_in_lanes(devices.get(label) or links.get(label) or [], "bars", "lanes"),
                **_in_lanes(ran.get(label, []), "measured", "measured_lanes"),
            }
            for label in kept
        ],
        "left": len(devices) + len(links) - len(kept),
        "beneath": None if trace is None else _beneath(forecast, trace, names),
        "names": names.values(),
    }


def _device_bars(forecast: StepForecast, names: Numbers) -> dict[str, list[list[Any]]]:
    bars: dict[str, list[list[Any]]] = {each.ref: [] for each in forecast.work.devices}
    critical = {(each.device, each.name) for each in forecast.path if each.what == "op"}
    for bar in forecast.simulated.bars:
        op = forecast.work.ops[bar.op]
        on_path = (op.device.ref, op.name) in critical
        bars[op.device.ref].append([names.of(op.name), bar.thread, *_span(bar.start, bar.end), on_path, -1])
    return bars


def _link_bars(forecast: StepForecast, names: Numbers) -> dict[str, list[list[Any]]]:
    bars: dict[str, list[list[Any]]] = {}
    critical = {(each.device, each.name) for each in forecast.path if each.what == "transfer"}
    for hop in forecast.simulated.hops:
        way = _way(hop.source.ref, hop.target.ref)
        on_path = (way, hop.tensor) in critical
        bar = [names.of(hop.tensor), 0, *_span(hop.start, hop.end), on_path, hop.bytes]
        bars.setdefault(way, []).append(bar)
    return bars


def _busiest(bars: Mapping[str, object], busy: Mapping[str, float]) -> list[str]:
    """Return the labels of the busiest rows, in the order in which they are listed."""
    kept = set(sorted(bars, key=lambda each: -busy[each])[:ROWS])
    return [each for each in bars if each in kept]


def _measured_bars(forecast: StepForecast, trace: RunTrace, names: Numbers) -> dict[str, list[list[Any]]]:
    """Return the measured runs of the ops that the forecast has, by their devices, each in a free lane."""
    step = trace.typical_step()
    bars: dict[str, list[list[Any]]] = {}
    for op in forecast.work.ops:
        for start, seconds in step.get(op.name, ()):
            bar = [names.of(op.name), 0, *_span(start, start + seconds)]
            bars.setdefault(op.device.ref, []).append(bar)
    for listed in bars.values():
        listed.sort(key=lambda each: each[2])
        free: list[float] = []
        for bar in listed:
            lane = next((at for at, until in enumerate(free) if until <= bar[2]), len(free))
            free[lane : lane + 1] = [bar[2] + bar[3]]
            bar[1] = lane
    return bars


def _beneath(forecast: StepForecast, trace: RunTrace, names: Numbers) -> dict[str, Any]:
    found = lay_beneath(forecast, trace)
    return {
        "steps": found.steps,
        "forecast": found.forecast * 1e6,
        "measured": found.measured * 1e6,
        "unknown": found.unknown * 1e6,
        "ops": [
            [names.of(each.name), each.device, round(each.forecast * 1e6, 3), round(each.measured * 1e6, 3)]
            for each in found.ops[:NAMED]
            if each.difference
        ],
    }


def _in_lanes(bars: Iterable[list[Any]], key: str, count: str) -> dict[str, Any]:
    """Return bars whose lanes are numbered from 0 in the order of their threads, and the number of lanes."""
    listed = list(bars)
    lanes = {thread: lane for lane, thread in enumerate(sorted({each[1] for each in listed}))}
    placed = [[name, lanes[thread], *rest] for name, thread, *rest in listed]
    placed.sort(key=lambda each: (each[2], each[1]))
    return {key: placed, count: len(lanes)}


def _way(source: str, target: str) -> str:
    return f"{source} -> {target}"


def _span(start: float, end: float) -> tuple[float, float]:
    return round(start * 1e6, 3), round((end - start) * 1e6, 3)
