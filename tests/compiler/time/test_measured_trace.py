"""The trace of a run beneath the forecast of its step."""

from __future__ import annotations

from attrs import evolve

from compiler.report.page.timeline import timeline_data
from compiler.time.forecast import forecast_step
from compiler.time.measured_trace import RunTrace, TraceEvent, join_alike, lay_beneath
from tests.compiler.time.steps import OTHER_CPU, Machine, op, step

MEASURED = {"clone_0/a": (0, 4), "clone_1/a": (1, 9), "a": (2, 2), "b": (11, 5), "metric": (15, 3)}
"""When each op of the trace started and how long it ran, in milliseconds."""


def ran() -> RunTrace:
    """Return the trace of one step."""
    return RunTrace(
        tuple(
            TraceEvent("X", long * 1e3, {"name": name}, 7 + start * 1e3)
            for name, (start, long) in MEASURED.items()
        )
    )


def test_the_same_op_of_all_clones_is_told_of_as_one() -> None:
    """The name is that of the clone that differs most, and an op outside of clones is another one."""
    work = step([op("clone_0/a=3"), op("clone_1/a=3", OTHER_CPU), op("a=1"), op("b=5")], [])
    timed = forecast_step(work, Machine())
    plain = [evolve(each, name=each.name.partition("=")[0]) for each in work.ops]
    own = tuple(evolve(each, clone=at) if at < 2 else each for at, each in enumerate(plain))
    timed = evolve(timed, work=evolve(work, ops=own))
    joined = join_alike(lay_beneath(timed, ran()), timed.work)
    assert [(each.name, each.device, each.ops) for each in joined] == [
        ("clone_1/a", "cpu[1]", 2),
        ("a", "cpu[0]", 1),
        ("b", "cpu[0]", 1),
    ]
    milliseconds = [
        tuple(round(seconds * 1e3, 6) for seconds in (each.forecast, each.measured, each.difference))
        for each in joined
    ]
    assert milliseconds == [(6, 13, 7), (1, 2, 1), (5, 5, 0)]
    found = timeline_data(timed, "p", ran())
    assert round(found["beneath"]["length"]) == 18_000  # with what the forecast leaves out
    assert found["until"] == found["beneath"]["length"]
    assert found["beneath"]["share"] == 1.0
    assert [each[2] for each in found["beneath"]["told"]] == [2, 1]  # that of `b` is as forecast
    busy = {row["label"]: row["measured_busy"] for row in found["rows"]}
    assert busy == {"cpu[0]": round((4 + 5) / 18, 4), "cpu[1]": 0.5}  # `a` runs while another op does


def test_no_span_is_compared_if_clones_update_by_themselves() -> None:
    """Their forecast is of several updates."""
    timed = forecast_step(step([op("a=3")], []), Machine())
    assert timeline_data(timed, "p", ran())["beneath"]["span"] == 3_000.0
    several = evolve(timed, simulated=evolve(timed.simulated, updates=2))
    assert timeline_data(several, "p", ran())["beneath"]["span"] is None
