"""The records of a step: what crosses to another device, what ops belong to, and what is in a trace."""

from typing import Any

import pytest

from compiler.time.forecast import covered, forecast_step
from compiler.time.measured_trace import RunTrace, TraceEvent, lay_beneath
from compiler.time.simulation.simulated import Bar, Hop, within
from compiler.time.work import TimedOp, crossings, scope_of
from compiler.topology import Device
from tests.compiler.time.steps import CPU, GPU, OTHER_CPU, Machine, op, step


@pytest.mark.parametrize(
    ("name", "tower", "scope"),
    [
        ("clone_0/block/dense/MatMul", "clone_0", "block/dense"),
        ("clone_0/block/dense/inner/MatMul", "clone_0", "block/dense"),
        ("clone_0/MatMul", "clone_0", "MatMul"),
        ("clone_0/dense/MatMul", "", "clone_0/dense"),
        ("clone_01/dense/MatMul", "clone_0", "clone_01/dense"),
        ("step", "", "step"),
    ],
)
def test_an_op_belongs_to_the_first_two_levels_of_its_name(name: str, tower: str, scope: str) -> None:
    """Inside its tower; an op at the top belongs to itself."""
    assert scope_of(name, tower) == scope


def test_what_crosses_to_another_device_crosses_once() -> None:
    """Each tensor for each device, however many ops there use it; equal devices need not be one record."""
    again = Device("cpu", 1, ordinal=1)
    ops = [op("a=1"), op("b=1", OTHER_CPU), op("c=1", again), op("d=1", GPU), op("e=1")]
    work = step(ops, [("a", "b"), ("a", "c"), ("a", "d"), ("a", "e"), ("b", "c")], {"a": 10, "b": 20})
    assert work.device_numbers() == [0, 1, 1, 2, 0]
    assert crossings(work) == {(0, "a:0", OTHER_CPU): 10, (0, "a:0", GPU): 10}


def test_a_moved_op_is_the_same_elsewhere() -> None:
    """All else about it stays."""
    one = TimedOp("a", op("a=1").signature, CPU, 3, 4, 5, 6, "scope", "rule", "enters", "leaves", begins=True)
    moved = one.on(GPU)
    assert moved == TimedOp(
        "a", one.signature, GPU, 3, 4, 5, 6, "scope", "rule", "enters", "leaves", begins=True
    )


def test_threads_of_a_process_and_what_is_on_a_gpu() -> None:
    """A process has its own number of threads if one is given; an emulated GPU is none."""
    near, far = Device("cpu", 0, "worker", 0), Device("cpu", 0, "worker", 1)
    work = step([op("a=1", GPU), op("b=1")], [], inner_threads=4, task_threads={far.host: 2})
    assert (work.threads_of(near.host), work.threads_of(far.host)) == (4, 2)
    assert [work.on_gpu(each) for each in work.ops] == [True, False]
    emulated = step([op("a=1", GPU)], [], emulated=True)
    assert not emulated.on_gpu(emulated.ops[0])


@pytest.mark.parametrize(
    ("intervals", "length"),
    [([], 0), ([(1, 3)], 2), ([(4, 5), (1, 3)], 3), ([(1, 4), (2, 3), (3, 6)], 5), ([(1, 2), (2, 3)], 2)],
)
def test_the_length_of_a_union(intervals: list[tuple[float, float]], length: float) -> None:
    """What several intervals cover counts once."""
    assert covered(intervals) == length


def test_what_happened_between_two_times() -> None:
    """Ops and tensors with their part in between, counted from the first; causes are left out."""
    bars = [Bar(at, 0, start - 0.5, start, start + 1, 0, 0) for at, start in enumerate((1.0, 2.0, 4.0, 4.5))]
    hops = [Hop(CPU, GPU, "t", 8, start, start + 1, 3) for start in (1.0, 2.0, 4.0, 4.5)]
    kept, sent = within(bars, hops, 2.0, 5.0)
    assert kept == (
        Bar(1, 0, 0.0, 0.0, 1.0, None),
        Bar(2, 0, 1.5, 2.0, 3.0, None),
        Bar(3, 0, 2.0, 2.5, 3.0, None),
    )
    assert within(bars, [], 1.5, 2.5)[0] == (Bar(0, 0, 0.0, 0.0, 0.5, None), Bar(1, 0, 0.0, 0.5, 1.0, None))
    assert sent == (
        Hop(CPU, GPU, "t", 8, 0.0, 1.0, -1),
        Hop(CPU, GPU, "t", 8, 2.0, 3.0, -1),
        Hop(CPU, GPU, "t", 4, 2.5, 3.0, -1),
    )


# --- traces -----------------------------------------------------------------------------------------------


def event(name: Any, start: float, long: float, phase: str = "X") -> TraceEvent:
    """Return an event of a trace, of milliseconds."""
    return TraceEvent(phase, long * 1e3, {"name": name}, start * 1e3)


STEPS = RunTrace(
    (
        *(event("a", start, long) for start, long in ((0, 1), (100, 2), (200, 4))),
        *(event("b", start, long) for start, long in ((10, 1), (120, 1), (205, 1))),
        *(event("loop", start, 1) for start in (1, 2, 101, 102, 201, 202)),
        event("once", 203, 9),
        event("a", 0, 500, "M"),
        event(7, 0, 500),
        TraceEvent("X", 500_000, None, 0),
        TraceEvent("X", 500_000, {}, 0),
    )
)


def test_a_trace_has_as_many_steps_as_most_ops_have_runs() -> None:
    """What is no complete event of a named op does not count; without ops there is no step."""
    assert STEPS.steps == 3
    assert RunTrace(()).steps == 0
    assert RunTrace(()).typical_step() == {}
    assert RunTrace(()).length() == 0


def test_the_times_of_a_trace_are_means_over_its_steps() -> None:
    """Also of what runs more often in a step, or not in each of them."""
    found = {name: seconds * 1e3 for name, seconds in STEPS.seconds().items()}
    assert found == pytest.approx({"a": 7 / 3, "b": 1.0, "loop": 2.0, "once": 3.0})


def test_the_typical_step_is_that_of_median_length() -> None:
    """Steps of 212, 21 and 6 ms: the second, counted from its first op."""
    found = STEPS.typical_step()
    rounded = {
        name: [(round(start * 1e3, 6), round(long * 1e3, 6)) for start, long in runs]
        for name, runs in found.items()
    }
    assert rounded == {"a": [(0, 2)], "b": [(20, 1)], "loop": [(1, 1), (2, 1)]}
    assert STEPS.length() * 1e3 == pytest.approx(21)


def test_a_trace_beneath_a_forecast() -> None:
    """The largest difference comes first, then by name; what is only in the trace is added up."""
    work = step([op("a=3"), op("b=1"), op("c=2")], [])
    named = [("a=3", 5), ("b=1", 3), ("metric", 1), ("other", 2)]
    trace = RunTrace(tuple(event(name, at, long) for at, (name, long) in enumerate(named)))
    found = lay_beneath(forecast_step(work, Machine(cores=4)), trace)
    told = [
        (each.name, round(each.forecast * 1e3, 6), round(each.measured * 1e3, 6), each.scope, each.device)
        for each in found.ops
    ]
    assert told == [
        ("a=3", 3, 5, "a", "cpu[0]"),
        ("b=1", 1, 3, "b", "cpu[0]"),
        ("c=2", 2, 0, "c", "cpu[0]"),
    ]
    figures = (found.forecast, found.measured, found.unknown, found.ops[2].difference)
    assert [round(each * 1e3, 6) for each in figures] == [6, 8, 3, -2]
    assert found.steps == 1
