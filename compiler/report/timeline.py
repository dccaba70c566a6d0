"""The timeline of a forecast step, as events that Perfetto and Chrome's trace viewer read.

The format is the Trace Event Format of Chrome: one complete event (`X`) for each op and each transfer, with
times in microseconds. Each device is a process with a row for each thread, and each link is one with one row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from attrs import asdict

from compiler.figures import duration, plural
from compiler.report import GENERATOR
from compiler.report.view import View, headed, shorten, signed
from compiler.time.forecast import StepForecast
from compiler.time.measured_trace import Beneath

STREAM = "stream"


def trace_json(forecast: StepForecast) -> str:
    """Return the timeline as JSON."""
    about = {"generator": GENERATOR, "seconds": forecast.seconds, "estimate": forecast.estimate}
    events = ",\n".join(json.dumps(each) for each in _events(forecast))
    return f'{{"otherData": {json.dumps(about)}, "displayTimeUnit": "ms", "traceEvents": [\n{events}\n]}}\n'


def _events(forecast: StepForecast) -> Iterator[dict[str, Any]]:
    work, found = forecast.work, forecast.simulated
    critical = {(each.name, each.start) for each in forecast.path if each.what == "op"}
    numbers = {each.ref: at for at, each in enumerate(work.devices)}
    rows: dict[tuple[str, int], None] = {}
    for ref, number in numbers.items():
        yield _named("process_name", number, 0, ref)
    for bar in found.bars:
        op = work.ops[bar.op]
        rows.setdefault((op.device.ref, bar.thread))
        yield {
            "name": op.name,
            "cat": op.scope,
            "ph": "X",
            "pid": numbers[op.device.ref],
            "tid": bar.thread + 1,
            "ts": bar.start * 1e6,
            "dur": (bar.end - bar.start) * 1e6,
            "args": {
                "type": op.signature.type,
                "inputs": list(op.signature.inputs),
                "rule": op.rule,
                "on the critical path": (op.name, bar.start) in critical,
            },
        }
    for ref, thread in rows:
        yield _named("thread_name", numbers[ref], thread + 1, f"thread {thread}" if thread >= 0 else STREAM)
    for hop in found.hops:
        way = f"{hop.source.ref} -> {hop.target.ref}"
        if way not in numbers:
            numbers[way] = len(numbers)
            yield _named("process_name", numbers[way], 0, way)
        yield {
            "name": hop.tensor,
            "cat": "transfer",
            "ph": "X",
            "pid": numbers[way],
            "tid": 0,
            "ts": hop.start * 1e6,
            "dur": (hop.end - hop.start) * 1e6,
            "args": {"bytes": hop.bytes},
        }


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}


# --- the times of a real step beneath the forecast ones, as text and as JSON ------------------------------


SHOWN = 10
"""The most ops that are named."""

LONGEST = 48
"""The most characters of the name of an op."""


def beneath_text(beneath: Beneath, view: View) -> list[str]:
    """Return lines with the sums, and the ops whose times differ most."""
    together = f"{duration(beneath.measured)} together, forecast {duration(beneath.forecast)}"
    lines = [f"measured in {plural(beneath.steps, 'step')}: its ops took {together}"]
    if beneath.unknown:
        lines.append(f"and {duration(beneath.unknown)} in ops that the forecast leaves out")
    rows = [("largest differences", "device", "forecast", "measured", "difference")]
    for each in beneath.ops[:SHOWN]:
        if each.difference:
            times = duration(each.forecast), duration(each.measured), signed(each.difference, duration)
            rows.append((shorten(each.name, LONGEST), each.device, *times))
    return lines + headed(rows, view.ink, left=2)


def beneath_json(beneath: Beneath) -> str:
    """Return one JSON object with every op, those with the largest difference first."""
    whole = {
        "format_version": "1.0",
        "steps": beneath.steps,
        "forecast": beneath.forecast,
        "measured": beneath.measured,
        "left_out": beneath.unknown,
        "ops": [asdict(each) for each in beneath.ops],
    }
    return json.dumps(whole) + "\n"
