"""What rounds of steps say: the times of ops in traced steps, and what makes a simulated step take as long.

The machine is not always equally fast, so several rounds are compared.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from attrs import define, evolve, field, frozen

from compiler.time.costs import profiled_costs
from compiler.time.profile import OpCost, Profile
from compiler.time.simulation.simulate import simulate
from compiler.time.work import StepWork


@frozen
class Round:
    """Some steps without a pause.

    Attributes:
        seconds: The median seconds of one.
        processors: The cores that they used, as a mean.
    """

    seconds: float
    processors: float


def timed(step: Callable[[], Any]) -> float:
    """Return the seconds of a step."""
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def timed_in_turns(
    steps: Sequence[Callable[[], Any]], warm: int, number: int, between: Callable[[], Any] = lambda: None
) -> list[list[float]]:
    """Return the seconds of steps that take turns, so that all meet the machine in the same states."""
    found: list[list[float]] = [[] for _ in steps]
    for _ in range(warm + number):
        for step, seconds in zip(steps, found, strict=True):
            between()
            seconds.append(timed(step))
    return [seconds[warm:] for seconds in found]


def plain_config(inner_threads: int) -> Any:
    """Return the options of a session that runs one op at a time, and the ops as they are written."""
    import tensorflow as tf

    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    config.intra_op_parallelism_threads = inner_threads
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = tf.compat.v1.OptimizerOptions.L0
    return config


def quartile(values: Iterable[float]) -> float:
    """Return the lower quartile of times: what others do meanwhile only makes them longer."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 4]


def typical(rounds: Iterable[Round]) -> float:
    """Return the seconds of a step."""
    return quartile(each.seconds for each in rounds)


def cores_used(rounds: Iterable[Round]) -> float:
    """Return the upper quartile of the cores that steps used: while others have a core, steps do not."""
    return -quartile(-each.processors for each in rounds)


@define
class TracedSteps:
    """The times of the ops of a graph over several steps.

    Attributes:
        known: The names of the ops of the graph.
        steps: The seconds and the number of kernels of each op, one entry for each step.
    """

    known: frozenset[str] = field(repr=False)
    steps: list[dict[str, tuple[float, int]]] = field(factory=list, repr=False)

    @classmethod
    def together(cls, parts: Iterable[TracedSteps]) -> TracedSteps:
        """Return the times of the steps of all parts, which are of the same graph."""
        found = list(parts)
        return cls(found[0].known, [step for each in found for step in each.steps])

    def add(self, metadata: Any) -> None:
        """Take the times of a step from its RunMetadata."""
        seconds: dict[str, float] = defaultdict(float)
        kernels: Counter[str] = Counter()
        for device in metadata.step_stats.dev_stats:
            for each in device.node_stats:
                owner = self._owner(each.node_name)
                if owner is None:  # it brings a tensor to another device
                    continue
                seconds[owner] += max(0, each.op_end_rel_nanos - each.op_start_rel_nanos) * 1e-9
                kernels[owner] += 1
        self.steps.append({name: (seconds[name], kernels[name]) for name in seconds})

    def _owner(self, name: str) -> str | None:
        """Return the op of the graph that a kernel belongs to: itself, or the loop that it is a part of."""
        inner = name.removeprefix("Func/")
        if inner in self.known:
            return inner
        at = inner.rfind("/")
        if inner[at + 1 :].startswith("_") and inner[at + 2 :].isdigit():  # sends and receives
            return None
        while at > 0:
            if inner[:at] in self.known:
                return inner[:at]
            at = inner.rfind("/", 0, at)
        return None

    def medians(self) -> Mapping[str, tuple[float, float]]:
        """Return the median seconds and the mean number of kernels of each op that ran."""
        names = {name for step in self.steps for name in step}
        found = {}
        for name in names:
            entries = [step.get(name, (0.0, 0)) for step in self.steps]
            seconds = median(each[0] for each in entries)
            found[name] = seconds, sum(each[1] for each in entries) / len(entries)
        return found


# Makes a simulated step take as long as the real one, while a thread for each core works on it.
#
# The time until a thread that has nothing to do takes an op is the one with which the simulation is right.
# If that takes longer than the step even without this time, ops beside others were measured as too long:
# threads write their traces in turn, and the machine may have been slower just then. If it takes less time
# than the step even with the longest such time, they were measured as too short, when the machine was
# faster. Of steps without a trace there are many, so ops are then slowed by others as far as these say.

SLOWEST_HAND_OVER = 5e-5
"""The longest time until a thread is awake, in seconds. What a step takes beyond that has other causes."""

_HALVINGS = 10


def fitted(found: Profile, work: StepWork, measured: float) -> Profile:
    """Return what was measured, with hand-over and slowing by others for which the simulation is right."""
    parallel = evolve(work, inner_threads=1, op_threads=found.machine.cores)

    def is_enough(other: Profile) -> bool:
        return simulate(parallel, profiled_costs(other)).seconds + found.step_start >= measured

    def handing_over(seconds: float) -> Profile:
        return evolve(found, hand_over=seconds)

    def slowed(part: float) -> Profile:
        return evolve(found, ops=tuple(_slowed(each, part) for each in found.ops))

    def slower(more: float) -> Profile:
        slowest = handing_over(SLOWEST_HAND_OVER)
        return evolve(slowest, ops=tuple(_slower(each, more) for each in found.ops))

    if is_enough(found):
        return slowed(_least(lambda part: is_enough(slowed(part)), 1.0))
    if is_enough(handing_over(SLOWEST_HAND_OVER)):
        return handing_over(_least(lambda seconds: is_enough(handing_over(seconds)), SLOWEST_HAND_OVER))
    return slower(_least(lambda more: is_enough(slower(more)), found.machine.cores - 1.0))


def _slowed(cost: OpCost, part: float) -> OpCost:
    """Return the cost of an op that others slow by a part of what was measured."""
    return evolve(cost, crowded=cost.alone + part * (cost.crowded - cost.alone))


def _slower(cost: OpCost, more: float) -> OpCost:
    """Return the cost of an op that others slow more than was measured."""
    return evolve(cost, crowded=max(cost.alone, cost.crowded) * (1 + more))


def _least(holds: Callable[[float], bool], most: float) -> float:
    """Return the number from 0 to `most` from which on something holds; `most` if it holds for none."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
