"""What is made of measured times: kernels of a step, typical rounds, rates of a core, and fits of a step."""

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from compiler.time.costs import profiled_costs
from compiler.time.profile import MeasuredMachine, OpCost, Profile
from compiler.time.simulation.simulate import simulate
from compiler.time.work import Signature
from dsl.schema.hardware import REACHED_BYTES, REACHED_FLOPS, TABLE
from tests.compiler.time.steps import op, step
from tfdeploy.runtime.calibrate.processes import joined, reached
from tfdeploy.runtime.calibrate.rounds import (
    SLOWEST_HAND_OVER,
    Round,
    TracedSteps,
    cores_used,
    fitted,
    quartile,
    typical,
)

MACHINE = MeasuredMachine("a processor", 2, "2.21.0")


def cost(kind: str, flops: int, size: int, alone: float) -> OpCost:
    """Return the measured cost of an op."""
    return OpCost(kind, (), "", flops, size, 1, 1.0, alone, alone)


OPS = (
    cost("MatMul", 10**9, 10**6, 0.1),
    cost("MatMul", 10**9, 10**6, 0.3),
    cost("Relu", 10**5, 10**6, 0.002),
    cost("Identity", 0, 10**9, 1e-6),
)
FOUND = Profile(MACHINE, (), 1e-5, 1e-6, 2e-6, 5e9, 5e8, OPS, (), awake=1.5, serial=0.1, parallel=0.05)


def test_rates_are_those_of_long_ops_together() -> None:
    """2 GFLOP in 0.4 s and 1 MB in 2 ms; what only hands a tensor on does not count."""
    assert reached(OPS) == pytest.approx((5e9, 5e8))


def test_without_long_ops_the_table_counts() -> None:
    """Short ops take what their start takes."""
    table = TABLE["cpu"]
    expected = (table.flops * REACHED_FLOPS, table.memory * REACHED_BYTES)
    assert reached(OPS[3:]) == reached(()) == expected


def test_wide_times_come_from_the_other_process() -> None:
    """An op has its time with several threads from the answer with the same signature."""
    other = evolve(FOUND, ops=(evolve(OPS[2], alone=0.0015),), awake=1.75, tower_awake=1.5)
    profile = joined((FOUND, other), "a.tfdeploy")
    wide = {each.type: each.wide for each in profile.ops}
    assert wide["Relu"] == 0.0015
    assert wide["Identity"] is None
    assert profile == evolve(
        FOUND, specs=("a.tfdeploy",), ops=profile.ops, awake=1.75, tower_awake=1.5
    )  # all else is from the process with one thread for each op
    reads = evolve(FOUND, ops=(cost("IteratorGetNext", 0, 10**6, 1e-4),))
    assert joined((reads, reads), "").ops[0].wide is None  # it waits for a thread of its own
    assert joined((FOUND,), "").awake == 0


def test_what_counts_for_which_rate() -> None:
    """An op with as many operations as bytes is one of memory, 10 µs are long, and no work counts nowhere."""
    ops = (cost("MatMul", 101, 100, 1e-5), cost("Relu", 100, 100, 1e-5), cost("NoOp", 0, 0, 1.0))
    assert reached(ops) == pytest.approx((101e5, 1e7))


def test_wide_times_are_those_of_the_same_signature() -> None:
    """An op with other inputs or details has a time of its own."""
    base = cost("Relu", 10, 100, 0.002)
    ops = (base, evolve(base, inputs=("float32[2]",)), evolve(base, detail="to [2]"))
    wide = evolve(FOUND, ops=tuple(evolve(each, alone=0.001 * at) for at, each in enumerate(ops, 1)))
    profile = joined((evolve(FOUND, ops=ops), wide), "")
    assert [each.wide for each in profile.ops] == pytest.approx([0.001, 0.002, 0.003])


WORK = step(
    [evolve(op(f"{name}=0"), signature=Signature(kind, ())) for name, kind in zip("abc", "ABB", strict=True)],
    [("a", "b"), ("a", "c")],
)
"""An op, and two that are alike and run side by side when it is done."""

MEASURED = Profile(
    MeasuredMachine("a processor", 2, "2.21.0"),
    (),
    ops=tuple(
        OpCost(kind, (), "", 1, 1, count, 1.0, alone, crowded)
        for kind, count, alone, crowded in (("A", 1, 0.001, 0.001), ("B", 2, 0.01, 0.015))
    ),
    step_start=0.002,
    op_start=0.0,
    hand_over=0.0,
    flops_per_second=1e9,
    bytes_per_second=1e9,
    links=(),
)
SLOWED = 0.002 + 0.001 + 0.015


@pytest.mark.parametrize(
    ("parallel", "hand_over", "crowded"),
    [
        (SLOWED + SLOWEST_HAND_OVER / 8, SLOWEST_HAND_OVER / 4, 0.015),
        (SLOWED - 0.003, 0.0, 0.012),
        (SLOWED - 0.006, 0.0, 0.01),
    ],
)
def test_a_simulated_step_takes_what_was_measured(parallel: float, hand_over: float, crowded: float) -> None:
    """Threads are handed ops as late, or slow each other as far, as makes it so, within what can be.

    While the second thread is not yet awake, the first is not slowed, which makes up for half of the wait.
    """
    found = fitted(MEASURED, WORK, parallel)
    assert found.hand_over == pytest.approx(hand_over, rel=0.01)
    assert [each.crowded for each in found.ops] == pytest.approx([0.001, crowded], rel=1e-3)
    assert [each.alone for each in found.ops] == [0.001, 0.01]
    work = evolve(WORK, op_threads=2)
    seconds = simulate(work, profiled_costs(found)).seconds + found.step_start
    assert seconds == pytest.approx(max(parallel, SLOWED - 0.005), rel=5e-4)


@pytest.mark.parametrize(("longer", "slower"), [(0.0015, 1.1), (1.0, 2.0)])
def test_ops_slow_each_other_more_than_traces_say(longer: float, slower: float) -> None:
    """Ops beside others are slower if no hand-over makes the step as long as it is, but not endlessly."""
    found = fitted(MEASURED, WORK, SLOWED + longer)
    assert found.hand_over == SLOWEST_HAND_OVER
    assert [each.crowded for each in found.ops] == pytest.approx([0.001 * slower, 0.015 * slower], rel=2e-3)
    assert [each.alone for each in found.ops] == [0.001, 0.01]


@pytest.mark.parametrize(
    ("values", "found"),
    [([5], 5), ([7, 5], 5), ([4, 2, 3], 2), ([1, 4, 3, 2], 1), ([5, 4, 3, 2, 1], 2), (range(9, 0, -1), 3)],
)
def test_the_lower_quartile(values: list[float], found: float) -> None:
    """It is one of the times, below which a quarter of the others are."""
    assert quartile(values) == found


def test_disturbed_rounds_do_not_count() -> None:
    """A step is as fast as in the faster rounds, and uses as many cores as in those that used more."""
    rounds = [Round(1.0, 1.5), Round(2.0, 2.0), Round(3.0, 1.0), Round(9.0, 0.5), Round(1.5, 1.75)]
    assert (typical(rounds), cores_used(rounds)) == (1.5, 1.75)


KNOWN = frozenset({"a", "rnn/while", "rnn/while/limit", "b/c"})


def traced(*kernels: tuple[str, int]) -> Any:
    """Return RunMetadata with kernels of so many microseconds."""
    nodes = [
        SimpleNamespace(node_name=name, op_start_rel_nanos=100, op_end_rel_nanos=100 + 1000 * time)
        for name, time in kernels
    ]
    return SimpleNamespace(step_stats=SimpleNamespace(dev_stats=[SimpleNamespace(node_stats=nodes)]))


def test_kernels_count_for_their_op() -> None:
    """What a loop was replaced by counts for the loop; what brings tensors to other devices for nothing."""
    times = TracedSteps(KNOWN)
    times.add(traced(("a", 5), ("rnn/while/body/add", 2), ("rnn/while/body/mul", 3), ("a/_7", 50)))
    found = times.medians()
    assert set(found) == {"a", "rnn/while"}
    assert found["a"] == pytest.approx((5e-6, 1))
    assert found["rnn/while"] == pytest.approx((5e-6, 2))


def test_medians_are_over_steps() -> None:
    """A slow step changes nothing; an op that did not run in every step has a part of a kernel."""
    times = TracedSteps(KNOWN)
    for time in (5, 6, 700):
        times.add(traced(("a", time)))
    times.add(traced(("a", 6), ("b/c", 1)))
    found = times.medians()
    assert found["a"] == pytest.approx((6e-6, 1))
    assert found["b/c"] == pytest.approx((0, 0.25))
