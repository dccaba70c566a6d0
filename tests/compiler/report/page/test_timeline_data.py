"""The timeline of a step as the page has it: which rows are kept, and what lies in which lane."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from compiler.report.page.timeline import NAMED, ROWS, TOLD, timeline_data
from compiler.time.forecast import forecast_step
from compiler.time.measured_trace import RunTrace, TraceEvent
from compiler.topology import Device
from tests.compiler.time.steps import Machine, op, step


def trace_of(*runs: tuple[str, float, float]) -> RunTrace:
    """Return the trace of a step, with the start and the length of each op in milliseconds."""
    return RunTrace(
        tuple(TraceEvent("X", long * 1e3, {"name": name}, start * 1e3) for name, start, long in runs)
    )


@pytest.mark.parametrize("more", [0, 2])
def test_the_busiest_devices_have_rows(more: int) -> None:
    """As many as there is room for, in the order of the map; the number of the others is told."""
    devices = [Device("cpu", at, ordinal=at) for at in range(ROWS + more)]
    idle = {0, 7} if more else set()
    ops = [op(f"op{at}={1 if at in idle else 10}", device) for at, device in enumerate(devices)]
    found = timeline_data(forecast_step(step(ops, []), Machine(cores=ROWS + more)), "p")
    assert [row["label"] for row in found["rows"]] == [
        each.ref for at, each in enumerate(devices) if at not in idle
    ]
    assert found["left"] == more
    assert found["beneath"] is None


def test_links_have_rows_of_their_own() -> None:
    """They are kept beside as many devices, and have bytes and a lane."""
    cpus = [Device("cpu", at, ordinal=at) for at in range(ROWS + 2)]
    ops = [op("a=1", cpus[0]), *(op(f"b{at}=1", each) for at, each in enumerate(cpus[1:]))]
    arrows = [("a", f"b{at}") for at in range(len(ops) - 1)]
    work = step(ops, arrows, {"a": 100}, one_process=True)
    found = timeline_data(forecast_step(work, Machine(cores=4, speed=1e5)), "p")
    links = [row for row in found["rows"] if "->" in row["label"]]
    assert (len(links), len(found["rows"]) - len(links), found["left"]) == (ROWS, ROWS, 1 + 2)
    name, *bar = links[0]["bars"][0]
    assert (_named(found, name), bar) == ("a:0", [0, 1000, 1000, 1, 100])
    assert links[0]["lanes"] == 1


def _named(found: dict[str, Any], name: int) -> str:
    """Return a name of the timeline."""
    form, *numbers = found["names"][name]
    return found["forms"][form].replace("#", "{}").format(*numbers)


def test_names_that_differ_in_numbers_have_one_form() -> None:
    """A number that would be written in another way stays as it is; an op off the path has four parts."""
    names = ["mail/unit_2/conv_01/worker_63=4", "mail/unit_2/conv_01/worker_0=5", f"mail/{10**12}/v2=1"]
    found = timeline_data(forecast_step(step([op(each) for each in names], []), Machine(cores=3)), "p")
    assert set(found["forms"]) == {"mail/unit_#/conv_01/worker_#=#", f"mail/{10**12}/v#=#"}
    bars = sorted(found["rows"][0]["bars"], key=lambda bar: bar[3])
    assert [_named(found, name) for name, *_ in bars] == [names[2], *names[:2]]
    assert [bar[2:] for bar in bars] == [[0, 1000], [0, 4000], [0, 5000, 1]]


def test_measured_ops_lie_in_lanes_that_are_free() -> None:
    """An op that starts when another ends takes its lane; busy is the part in which any of them runs."""
    ops = [op(f"{name}=1") for name in "abcd"]
    timed = forecast_step(step(ops, []), Machine())
    timed = evolve(timed, work=evolve(timed.work, ops=tuple(evolve(e, name=e.name[0]) for e in ops)))
    ran = trace_of(("a", 0, 4), ("b", 1, 2), ("c", 3, 2), ("d", 8, 2))
    found = timeline_data(timed, "p", ran)
    (row,) = found["rows"]
    lanes = {_named(found, name): (lane, start, long) for name, lane, start, long in row["measured"]}
    assert lanes == {
        "a": (0, 0.0, 4000.0),
        "b": (1, 1000.0, 2000.0),
        "c": (1, 3000.0, 2000.0),
        "d": (0, 8000.0, 2000.0),
    }
    assert (row["measured_lanes"], row["measured_busy"]) == (2, 0.7)
    assert (found["beneath"]["length"], found["until"]) == (10_000.0, 10_000.0)


@pytest.mark.parametrize("more", [0, 1])
def test_the_ops_that_differ_most_are_compared(more: int) -> None:
    """Fifty in a table, five in sentences; those that took as long as forecast in neither."""
    number = NAMED + more
    ops = [op(f"op{at}=1") for at in range(number + 1)]
    timed = forecast_step(step(ops, []), Machine())
    names = tuple(evolve(each, name=each.name.partition("=")[0]) for each in ops)
    timed = evolve(timed, work=evolve(timed.work, ops=names))
    ran = trace_of(*((f"op{at}", at, 2 + at) for at in range(number)), (f"op{number}", 0, 1))
    beneath: dict[str, Any] = timeline_data(timed, "p", ran)["beneath"]
    assert len(beneath["ops"]) == NAMED
    assert len(beneath["told"]) == TOLD
    differences = [1.0 + at for at in range(number)]
    assert beneath["share"] == pytest.approx(sum(differences[-TOLD:]) / sum(differences))
    assert [round(each[4] - each[3]) for each in beneath["told"]] == [
        1000 * round(each) for each in differences[: -TOLD - 1 : -1]
    ]
    for rows, columns in (("told", slice(3, 5)), ("ops", slice(2, 4))):
        measured = [1000.0 * (2 + at) for at in range(number)][: -len(beneath[rows]) - 1 : -1]
        assert [each[columns] for each in beneath[rows]] == [
            pytest.approx([1000.0, each]) for each in measured
        ]


def test_a_step_that_took_as_long_as_forecast() -> None:
    """Nothing is told of it then."""
    timed = forecast_step(step([op("a=1")], []), Machine())
    timed = evolve(timed, work=evolve(timed.work, ops=(evolve(timed.work.ops[0], name="a"),)))
    beneath = timeline_data(timed, "p", trace_of(("a", 0, 1)))["beneath"]
    assert (beneath["share"], beneath["told"], beneath["ops"]) == (0.0, [], [])
