"""What placements come to, and which of some is best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cached_property
from graphlib import TopologicalSorter

from attrs import define, field, frozen

from compiler.kinds.kind_map import AnyMap
from compiler.mapping.records import MapDevice, MapVariable
from compiler.report.devices import pools
from compiler.time.costs import Costs
from compiler.time.forecast import StepForecast, forecast_step
from compiler.time.work import StepWork

WORTH = 0.999
"""A placement is better if it comes to less than this part of the other one."""


@define(eq=False)
class Outcome:
    """What a placement comes to."""

    work: StepWork | None = field(repr=False)  # the work of a step, or None if its time cannot be forecast
    costs: Costs | None = field(repr=False)  # what its ops cost, or None if that is not known
    make_map: Callable[[], AnyMap] = field(repr=False)

    @cached_property
    def placement(self) -> AnyMap:
        """Its map."""
        return self.make_map()

    @cached_property
    def time(self) -> StepForecast | None:
        """The forecast of a step, or None if there is none."""
        if self.work is None or self.costs is None:
            return None
        return forecast_step(self.work, self.costs)

    @cached_property
    def figures(self) -> Figures:
        """All of its figures; always the same record."""
        return Figures.of(self.placement, self.time)

    @property
    def missing(self) -> int:
        """The bytes by which devices are too small, all together."""
        return self._of_map.missing

    def value(self, goal: Goal) -> float:
        """Return the figure that a goal is about; raises NoForecastError if it is a time without forecast."""
        if goal is not Goal.STEP_TIME:
            return self._of_map.value(goal)
        if self.time is None:
            raise NoForecastError
        return self.time.seconds

    @cached_property
    def _of_map(self) -> Figures:
        """The figures without those of time."""
        return Figures.of(self.placement, None)


def best_of(known: Outcome, others: Sequence[Outcome], goal: Goal, *, limited: bool = True) -> Outcome:
    """Return the best of some placements.

    It lacks the least memory, and comes to the least of those that lack as much. Differences of less than a
    thousandth do not count: the one that is known stays, or the first of the others is taken.

    Args:
        limited: Whether the memory of devices is known; if not, none can lack any.
    """
    every = [known, *others]
    if limited:
        fewest = min(each.missing for each in every)
        every = [each for each in every if each.missing == fewest]
    lowest = min(each.value(goal) for each in every)
    return next(each for each in every if not lowest < WORTH * each.value(goal))


# --- the figures of a placement ---------------------------------------------------------------------------


class NoForecastError(Exception):
    """The goal is the time of a step, and there is no forecast of it."""


class Goal(StrEnum):
    """What is to be low: the time of a step, the memory of the fullest device, or the most that one holds."""

    STEP_TIME = "step_time"
    MEMORY = "memory"
    BALANCE = "balance"


@frozen
class Figures:
    """What a placement comes to."""

    missing: int  # the bytes by which devices are too small, all together
    seconds: float | None  # the forecast of the time of a step, or None if there is none
    fullest: tuple[str, int]  # the device that needs the most memory, and its bytes
    heaviest: tuple[str, int]  # the device with the most bytes of variables and slots, and these bytes
    sent: int  # the bytes that a step sends between devices
    # The device or link that is busy for the largest part of the step, in words.
    bottleneck: str = field(default="", eq=False)

    @classmethod
    def of(cls, placement: AnyMap, time: StepForecast | None) -> Figures:
        """Return the figures of a placement."""
        devices = placement.devices
        fullest = max(devices, key=lambda each: each.memory_bytes or 0)
        heaviest = max(devices, key=held)
        return cls(
            sum(max(0, pool.excess) for pool in pools(placement)),
            None if time is None else time.seconds,
            (fullest.ref, fullest.memory_bytes or 0),
            (heaviest.ref, held(heaviest)),
            sum(each.bytes for each in placement.transfers),
            "" if time is None else _busiest(time),
        )

    def value(self, goal: Goal) -> float:
        """Return the figure that a goal is about."""
        if goal is Goal.MEMORY:
            return self.fullest[1]
        if goal is Goal.BALANCE:
            return self.heaviest[1]
        if self.seconds is None:
            raise NoForecastError
        return self.seconds


def held(device: MapDevice) -> int:
    """Return the bytes of variables and slots on a device."""
    return device.variable_bytes + device.slot_bytes


def bound(goal: Goal, placement: AnyMap, work: StepWork | None, costs: Costs | None) -> float:
    """Return a value of the goal that no placement of the same ops and variables is below.

    For bytes this is an equal share of all variables and slots on each device. For time it is the larger of
    two: an equal share of all ops for each core and GPU, and the longest chain of ops, each at the cost of
    the device that it is cheapest on, with nothing to send.

    Args:
        work: The step, if the goal is its time. A task in it may stand for others, too.
    """
    if goal is not Goal.STEP_TIME:
        whole = sum(_whole_bytes(each) for each in placement.variables)
        return whole / len(placement.devices)
    assert work is not None
    assert costs is not None
    devices = {each.kind: each for each in work.devices}
    least, shares = [], []
    loops = [max(work.alike.get(work.ops[at].device.host, 1) for at in loop) for loop in work.loops]
    for op, number in zip(work.ops, _numbers(work, loops), strict=True):
        found = [
            costs.of(op if op.device.kind == kind else op.on(device)) for kind, device in devices.items()
        ]
        least.append(min(min(each.alone, each.wide) for each in found))
        shares.append(number * min(min(each.alone, each.wide * costs.cores) for each in found))
    hosts = {each.host for each in work.devices}
    machines = 1 if work.one_process else sum(work.alike.get(each, 1) for each in hosts)
    gpus = sum(work.alike.get(each.host, 1) for each in work.devices if each.kind == "gpu")
    share = sum(shares) / (machines * costs.cores + gpus)
    if work.loops:
        return share / sum(loops)
    return max(share, _longest(work, least))


def _numbers(work: StepWork, loops: Sequence[int]) -> list[int]:
    """Return how many ops each op of a step stands for.

    Args:
        loops: For how many clones each one stands that repeats its own ops. What these do on servers is not
            there for the others. An op that clones of several tasks repeat is one for all.
    """
    found = [op.times * work.alike.get(op.device.host, 1) for op in work.ops]
    least: dict[int, int] = {}
    for loop, clones in zip(work.loops, loops, strict=True):
        for at in loop:
            least[at] = min(clones, least.get(at, clones))
    for at, clones in least.items():
        found[at] = work.ops[at].times * clones
    return found


def _longest(work: StepWork, seconds: list[float]) -> float:
    """Return the time of the longest chain of ops."""
    inputs: list[list[int]] = [[] for _ in work.ops]
    for each in work.arrows:
        inputs[each.target].append(each.source)
    ends = [0.0] * len(work.ops)
    for at in TopologicalSorter(dict(enumerate(inputs))).static_order():
        ends[at] = seconds[at] + max((ends[each] for each in inputs[at]), default=0.0)
    return max(ends, default=0.0)


def _whole_bytes(variable: MapVariable) -> int:
    """Return the bytes of one copy of a variable with its slots."""
    in_parts = any(slot.bytes < variable.bytes for slot in variable.slots)  # each clone has a part of them
    copies = 1 if in_parts else max(1, len(variable.copies))
    return variable.bytes + sum(slot.bytes for slot in variable.slots) // copies


def _busiest(time: StepForecast) -> str:
    """Return the device or link that is busy for the largest part of the step."""
    devices = [(each.busy, each.ref) for each in time.devices]
    links = [(each.busy, f"the link from {each.from_device} to {each.to_device}") for each in time.links]
    busy, name = max([*devices, *links], key=lambda each: each[0])
    return f"{name}, busy {100 * busy:.0f} % of the time"
