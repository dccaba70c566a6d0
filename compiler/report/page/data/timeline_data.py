"""The timeline of a forecast step as the page has it: a row for each device and each link in use."""

from __future__ import annotations

from typing import Any

from compiler.report.page.data.numbers import Numbers
from compiler.time.forecast import StepForecast


def timeline_data(forecast: StepForecast, source: str) -> dict[str, Any]:
    """Return the timeline, with times in microseconds from the start of the step.

    Args:
        forecast: The forecast of the step.
        source: What it was made from: the file of a profile, or the name of the hardware.

    Returns:
        `rows`, each with its `label`, how `busy` it is (from 0 to 1), the number of its `lanes`, and its
        `bars`: `[name, lane, start, length, whether it is on the critical path, bytes or -1 for an op]`, in
        the order of their start. A device has a lane for each thread; a link has one. A name is a number
        into `names`.
    """
    names = Numbers()
    busy = {each.ref: each.busy for each in forecast.devices}
    busy |= {_way(each.from_device, each.to_device): each.busy for each in forecast.links}
    bars: dict[str, list[list[Any]]] = {each.ref: [] for each in forecast.work.devices}
    critical = {(each.what, each.device, each.name) for each in forecast.path}
    for bar in forecast.simulated.bars:
        op = forecast.work.ops[bar.op]
        on_path = ("op", op.device.ref, op.name) in critical
        bars[op.device.ref].append([names.of(op.name), bar.thread, *_span(bar.start, bar.end), on_path, -1])
    for hop in forecast.simulated.hops:
        way = _way(hop.source.ref, hop.target.ref)
        on_path = ("transfer", way, hop.tensor) in critical
        bars.setdefault(way, []).append(
            [names.of(hop.tensor), 0, *_span(hop.start, hop.end), on_path, hop.bytes]
        )
    return {
        "seconds": forecast.seconds,
        "until": round(forecast.simulated.seconds * 1e6, 3),
        "estimate": forecast.estimate,
        "source": source,
        "rows": [_row(label, busy[label], listed) for label, listed in bars.items()],
        "names": names.values(),
    }


def _row(label: str, busy: float, bars: list[list[Any]]) -> dict[str, Any]:
    """Return a row whose lanes are numbered from 0 in the order of its threads."""
    lanes = {thread: lane for lane, thread in enumerate(sorted({each[1] for each in bars}))}
    placed = [[name, lanes[thread], *rest] for name, thread, *rest in bars]
    placed.sort(key=lambda each: (each[2], each[1]))
    return {"label": label, "busy": round(busy, 4), "lanes": len(lanes), "bars": placed}


def _way(source: str, target: str) -> str:
    return f"{source} -> {target}"


def _span(start: float, end: float) -> tuple[float, float]:
    return round(start * 1e6, 3), round((end - start) * 1e6, 3)
