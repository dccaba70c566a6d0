"""The timeline of a step, and the times of a real step beneath the forecast ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compiler.report.timeline import LONGEST, beneath_json, beneath_text, trace_json
from compiler.report.timeline import SHOWN as DIFFERENCES
from compiler.report.view import View
from compiler.time.forecast import forecast_step
from compiler.time.measured_trace import Beneath, OpTimes, lay_beneath, read_trace
from tests.compiler.report.test_terminal import told
from tests.compiler.time.steps import GPU, OTHER_CPU, Machine, op, step

WORK = step(
    [op("a=10", rule="x"), op("b=5", OTHER_CPU, rule="y"), op("c=2", rule="x")],
    [("a", "b"), ("a", "c")],
    {"a": 1000},
)
FORECAST = forecast_step(WORK, Machine(speed=1e5, step_start=1e-3, source="p"))
SLOWER = forecast_step(WORK, Machine(speed=5e4, step_start=1e-3, source="p"))


def test_timeline(golden: Callable[[str, str], None]) -> None:
    """Each op and transfer is an event on the row of its thread, stream or link, with what placed it."""
    work = step([op("a=10"), op("b=5", GPU), op("c=2")], [("a", "b"), ("a", "c")], {"a": 1000})
    rough = forecast_step(work, Machine(speed=1e5, estimate=True))
    golden("timelines/small.json", trace_json(FORECAST) + trace_json(rough))


def beneath(number: int, *seconds: float) -> Beneath:
    """Return ops that were forecast to take 10 seconds and took so many more, in so many steps."""
    named = [("n" * LONGEST + f"_{at}", each) for at, each in enumerate(seconds)]
    ops = tuple(OpTimes(10.0, 10.0 + each, name, "", "cpu[0]") for name, each in named)
    return Beneath(number, ops, 0.0)


def test_a_run_beneath_its_forecast(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    """The means over the steps stand beside the forecast, the largest differences first."""

    def event(name: str, microseconds: float) -> dict[str, Any]:
        args = {"name": name, "op": "Op"}
        return {"name": "Op", "ph": "X", "pid": 1, "ts": 5, "dur": microseconds, "args": args}

    path = tmp_path / "trace.json"
    other = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a device"}}
    events = [
        each
        for long in (8_000, 10_000)
        for each in (event("a=10", 10_000), event("b=5", long), event("metric", 500))
    ]
    path.write_text(json.dumps({"traceEvents": [other, *events]}), encoding="utf-8")
    found = lay_beneath(FORECAST, read_trace(path))
    most = [-1.0] * (DIFFERENCES - 1)
    texts = [found, beneath(1, *most, 1.0), beneath(1, *most, 1.0, 1.0), beneath(3, 0.0, 0.0)]
    golden("timelines/beneath.txt", told(*(beneath_text(each, View()) for each in texts)))
    whole = json.loads(beneath_json(found))
    assert (whole["steps"], [each["name"] for each in whole["ops"]]) == (2, ["b=5", "c=2", "a=10"])
    assert whole["ops"][0]["measured"] == pytest.approx(0.009)
