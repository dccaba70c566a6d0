"""What is shown of forecasts of time: the timeline, the critical path of a thing, and what a change costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from compiler.mapping.explanation import Explanation, Link
from compiler.reasons import Reason
from compiler.report.compare import compare, diff_json
from compiler.report.diff_text import diff_text
from compiler.report.terminal import step_time
from compiler.report.timeline import beneath_json, beneath_text, trace_json
from compiler.report.view import Ink, View
from compiler.report.why import why_time
from compiler.time.forecast import forecast_step
from compiler.time.measured_trace import lay_beneath, read_trace
from tests.compiler.time.steps import GPU, OTHER_CPU, Machine, op, step
from tests.placement_maps import make_map

WORK = step(
    [op("a=10", rule="x"), op("b=5", OTHER_CPU, rule="y"), op("c=2", rule="x")],
    [("a", "b"), ("a", "c")],
    {"a": 1000},
)
FORECAST = forecast_step(WORK, Machine(speed=1e5, step_start=1e-3))
SLOWER = forecast_step(WORK, Machine(speed=5e4, step_start=1e-3))


def test_the_timeline_has_every_op_and_transfer() -> None:
    """Each op is an event on the row of its thread, in microseconds, with what placed it."""
    trace = json.loads(trace_json(FORECAST))
    names = {
        each["pid"]: each["args"]["name"] for each in trace["traceEvents"] if each["name"] == "process_name"
    }
    assert set(names.values()) == {"cpu[0]", "cpu[1]", "cpu[0] -> cpu[1]"}
    events: dict[str, Any] = {each["name"]: each for each in trace["traceEvents"] if each["ph"] == "X"}
    assert set(events) == {"a=10", "b=5", "c=2", "a:0"}
    assert [round(events[name]["ts"]) for name in ("a=10", "a:0", "b=5")] == [0, 10_000, 20_000]
    assert [round(events[name]["dur"]) for name in ("a=10", "a:0", "b=5")] == [10_000, 10_000, 5_000]
    assert events["b=5"]["args"]["rule"] == "y"
    assert names[events["b=5"]["pid"]] == "cpu[1]"
    critical = {name for name, each in events.items() if each["args"].get("on the critical path")}
    assert critical == {"a=10", "b=5"}
    assert trace_json(FORECAST).startswith('{"otherData": {"generator": "made by tfdeploy"')


def test_the_timeline_names_its_rows() -> None:
    """A row for each thread of a processor, one for a GPU, and one for each link, all with other numbers."""
    work = step([op("a=10"), op("b=5", GPU), op("c=2")], [("a", "b"), ("a", "c")], {"a": 1000})
    trace = json.loads(trace_json(forecast_step(work, Machine(speed=1e5, estimate=True))))
    assert (trace["displayTimeUnit"], trace["otherData"]["estimate"]) == ("ms", True)
    events = trace["traceEvents"]
    named = {
        (each["name"], each["pid"], each["tid"]): each["args"]["name"] for each in events if each["ph"] == "M"
    }
    assert named == {
        ("process_name", 0, 0): "cpu[0]",
        ("process_name", 1, 0): "gpu[0]",
        ("process_name", 2, 0): "cpu[0] -> gpu[0]",
        ("thread_name", 0, 1): "thread 0",
        ("thread_name", 0, 2): "thread 1",
        ("thread_name", 1, 0): "stream",
    }
    rows = {each["name"]: (each["cat"], each["pid"], each["tid"]) for each in events if each["ph"] == "X"}
    assert rows == {"a=10": ("a", 0, 1), "b=5": ("b", 1, 0), "c=2": ("c", 0, 2), "a:0": ("transfer", 2, 0)}
    arguments = {each["name"]: each["args"] for each in events if each["ph"] == "X"}
    assert arguments["a:0"] == {"bytes": 1000}
    assert (arguments["c=2"]["type"], arguments["c=2"]["inputs"]) == ("Op", [])


def explained(name: str) -> Explanation:
    """Return an explanation of an op."""
    reason = Reason("x", "default")
    return Explanation(
        "op", name, "Op", "forward", None, "cpu[0]", None, (Link("op", name, "cpu[0]", reason),)
    )


def test_what_is_on_the_critical_path() -> None:
    """The time of an op counts with that of its transfer; what is beside the path is said to be."""
    assert (
        why_time([explained("a=10")], FORECAST) == "on the critical path: 10.0 ms of a step of 26.0 ms, 38%\n"
    )
    assert why_time([explained("c=2")], FORECAST) == "not on the critical path of a step of 26.0 ms\n"
    both = why_time([explained("a=10"), explained("b=5"), explained("c=2")], FORECAST)
    assert both == "2 ops of these on the critical path: 15.0 ms of a step of 26.0 ms, 58%\n"


def test_the_lines_of_a_plan() -> None:
    """The time, the critical path in two tables, and the links that copy."""
    placement = evolve(make_map(2), time=FORECAST.for_map("a.profile.json"))
    lines = step_time(placement, View())
    assert lines[0] == "a step takes 26.0 ms, forecast by a.profile.json"
    assert lines[1].split() == ["critical", "path", "by", "scope", "time", "of", "step"]
    assert lines[2].split() == ["b", "15.0", "ms", "58%"]
    assert lines[-1].split() == ["cpu[0]", "->", "cpu[1]", "1000", "B", "10.0", "ms", "38%"]
    rough = evolve(placement, time=evolve(FORECAST, estimate=True).for_map("v100"))
    assert step_time(rough, View())[0] == "a step takes 26.0 ms, an estimate for the hardware `v100`"
    partly = evolve(placement, time=evolve(FORECAST, measured=0.25).for_map("p"))
    assert step_time(partly, View())[0].endswith("by p, which has 25% of the time of its ops")
    assert step_time(make_map(2), View()) == []


def test_a_difference_says_how_much_slower_and_which_link() -> None:
    """The step, the parts of its critical path and the links are shown before and after."""
    before = evolve(make_map(2), time=FORECAST.for_map("p"))
    after = evolve(make_map(4), time=SLOWER.for_map("p"))
    found = compare(before, after)
    text = diff_text(found, Ink())
    assert "a step: 26.0 ms -> 36.0 ms, 38% longer\n" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["cpu[0]", "->", "cpu[1]", "10.0", "ms", "20.0", "ms", "+10.0", "ms"] in rows
    assert ["b", "15.0", "ms", "25.0", "ms", "+10.0", "ms"] in rows
    assert "a step: 36.0 ms -> 26.0 ms, 28% shorter\n" in diff_text(compare(after, before), Ink())
    assert "a step: 26.0 ms -> 26.0 ms, the same\n" in diff_text(
        compare(before, evolve(after, time=before.time)), Ink()
    )
    time = json.loads(diff_json(found))["time"]
    assert (round(time["before"], 6), round(time["after"], 6), time["estimate"]) == (0.026, 0.036, False)
    assert [(each["from"], each["to"]) for each in time["links"]] == [("cpu[0]", "cpu[1]")]


def test_time_alone_is_no_difference_of_placements() -> None:
    """The same placement by two profiles is the same placement."""
    before = evolve(make_map(2), time=FORECAST.for_map("p"))
    assert not compare(before, evolve(before, time=SLOWER.for_map("q"))).different
    assert compare(before, make_map(2)).time is None


def event(name: str, microseconds: float) -> dict[str, Any]:
    """Return the event of an op in the trace of a run."""
    return {
        "name": "Op",
        "ph": "X",
        "pid": 1,
        "ts": 5,
        "dur": microseconds,
        "args": {"name": name, "op": "Op"},
    }


def test_a_run_beneath_its_forecast(tmp_path: Path) -> None:
    """The means over the steps stand beside the forecast, the largest difference first."""
    path = tmp_path / "trace.json"
    steps = [[event("a=10", 10_000), event("b=5", long), event("metric", 500)] for long in (8_000, 10_000)]
    other = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "a device"}}
    path.write_text(json.dumps({"traceEvents": [other, *steps[0], *steps[1]]}), encoding="utf-8")
    found = lay_beneath(FORECAST, read_trace(path))
    assert found.steps == 2
    assert [(each.name, round(each.difference * 1e3, 6)) for each in found.ops] == [
        ("b=5", 4),
        ("c=2", -2),
        ("a=10", 0),
    ]
    assert (round(found.forecast, 6), round(found.measured, 6), found.unknown) == (0.017, 0.019, 0.0005)
    lines = beneath_text(found, View())
    assert lines[0] == "measured in 2 steps: its ops took 19.0 ms together, forecast 17.0 ms"
    assert lines[1] == "and 500 µs in ops that the forecast leaves out"
    assert lines[3].split() == ["b=5", "cpu[1]", "5.00", "ms", "9.00", "ms", "+4.00", "ms"]
    whole = json.loads(beneath_json(found))
    assert [each["name"] for each in whole["ops"]] == ["b=5", "c=2", "a=10"]
    assert whole["ops"][0]["measured"] == pytest.approx(0.009)
