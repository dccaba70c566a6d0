"""Makes a simulated step take as long as the real one, while a thread for each core works on it.

The time until a thread that has nothing to do takes an op is the one with which the simulation is right. If
that takes longer than the step even without this time, ops beside others were measured as too long: threads
write their traces in turn, and the machine may have been slower just then. If it takes less time than the
step even with the longest such time, they were measured as too short, when the machine was faster. Of steps
without a trace there are many, so ops are then slowed by others as far as these say.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from compiler.time.costs import ProfiledCosts
from compiler.time.profile import OpCost
from compiler.time.simulation.simulate import simulate
from compiler.time.work import StepWork
from tfdeploy.runtime.calibrate.requests import Measured, profile_of

SLOWEST_HAND_OVER = 5e-5
"""The longest time until a thread is awake, in seconds. What a step takes beyond that has other causes."""

_HALVINGS = 10


def fitted(found: Measured, work: StepWork) -> Measured:
    """Return what was measured, with the hand-over and the slowing by others that make the simulation right.

    Args:
        found: What was measured, without a time to hand over an op.
        work: The step that was measured.
    """
    parallel = evolve(work, inner_threads=1, op_threads=found.machine.cores)

    def is_enough(other: Measured) -> bool:
        seconds = simulate(parallel, ProfiledCosts(profile_of(other, ()))).seconds
        return seconds + found.step_start >= found.parallel

    def handing_over(seconds: float) -> Measured:
        return evolve(found, hand_over=seconds)

    def slowed(part: float) -> Measured:
        return evolve(found, ops=tuple(_slowed(each, part) for each in found.ops))

    def slower(more: float) -> Measured:
        slowest = handing_over(SLOWEST_HAND_OVER)
        return evolve(slowest, ops=tuple(_slower(each, more) for each in found.ops))

    if is_enough(found):
        return slowed(_least(lambda part: is_enough(slowed(part)), 1.0))
    if is_enough(handing_over(SLOWEST_HAND_OVER)):
        return handing_over(_least(lambda seconds: is_enough(handing_over(seconds)), SLOWEST_HAND_OVER))
    return slower(_least(lambda more: is_enough(slower(more)), found.machine.cores - 1.0))


def _slowed(cost: OpCost, part: float) -> OpCost:
    """Return the cost of an op that others slow by a part of what was measured.

    Args:
        cost: What was measured.
        part: The part, from 0 to 1.
    """
    return evolve(cost, crowded=cost.alone + part * (cost.crowded - cost.alone))


def _slower(cost: OpCost, more: float) -> OpCost:
    """Return the cost of an op that others slow more than was measured.

    Args:
        cost: What was measured.
        more: By how much, as a part of its time beside others.
    """
    return evolve(cost, crowded=max(cost.alone, cost.crowded) * (1 + more))


def _least(holds: Callable[[float], bool], most: float) -> float:
    """Return the number from 0 to `most` from which on something holds; `most` if it holds for none.

    Args:
        holds: Says whether it holds for a number.
        most: The largest number.
    """
    if holds(0.0):
        return 0.0
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
