"""What makes a simulated step take as long as the real one."""

from __future__ import annotations

import pytest
from attrs import evolve

from compiler.time.costs import profiled_costs
from compiler.time.profile import MeasuredMachine, OpCost, Profile
from compiler.time.simulation.simulate import simulate
from compiler.time.work import Signature
from tests.compiler.time.steps import op, step
from tfdeploy.runtime.calibrate.rounds import SLOWEST_HAND_OVER, fitted

WORK = step(
    [evolve(op(f"{name}=0"), signature=Signature(kind, ())) for name, kind in zip("abc", "ABB", strict=True)],
    [("a", "b"), ("a", "c")],
)
"""An op, and two that are alike and run side by side when it is done."""

FOUND = Profile(
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
    found = fitted(FOUND, WORK, parallel)
    assert found.hand_over == pytest.approx(hand_over, rel=0.01)
    assert [each.crowded for each in found.ops] == pytest.approx([0.001, crowded], rel=1e-3)
    assert [each.alone for each in found.ops] == [0.001, 0.01]
    work = evolve(WORK, op_threads=2)
    seconds = simulate(work, profiled_costs(found)).seconds + found.step_start
    assert seconds == pytest.approx(max(parallel, SLOWED - 0.005), rel=5e-4)


@pytest.mark.parametrize(("longer", "slower"), [(0.0015, 1.1), (1.0, 2.0)])
def test_ops_slow_each_other_more_than_traces_say(longer: float, slower: float) -> None:
    """Ops beside others are slower if no hand-over makes the step as long as it is, but not endlessly."""
    found = fitted(FOUND, WORK, SLOWED + longer)
    assert found.hand_over == SLOWEST_HAND_OVER
    assert [each.crowded for each in found.ops] == pytest.approx([0.001 * slower, 0.015 * slower], rel=2e-3)
    assert [each.alone for each in found.ops] == [0.001, 0.01]
