"""The search for the placement with the lowest max-load.

It begins with the best split into consecutive pieces (`pieces.py`) and goes through a number of cycles. A
cycle joins groups until a few dozen are left (`coarsen.py`), places these (`tempering.py`), takes the joined
groups apart step by step and improves the placement after each step. Cycles that begin afresh find other
placements; the others keep together only what the best placement has together, and so improve it.

How long it takes depends on the numbers of groups, nets and devices, so that the same input always has the
same result. Only a caller who has no more time can end it early.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen

from compiler.search.coarsen import coarsen
from compiler.search.pieces import split_into_pieces
from compiler.search.problem import (
    Integers,
    Operator,
    Problem,
    Workload,
    find_components,
    gather,
    join_inseparable,
    measure_loads,
    merge,
    numbered,
    unordered,
)
from compiler.search.tempering import Ladder, never, temper

REPLICAS = 32
MOST_PREFIXES = 3000
WIDTHS = (8, 12)  # the least and the most prefixes of one size
MOST_CYCLES = 3
MOST_OFFERS = 50_000  # of a group to all replicas; one takes about 30 microseconds
GROUPS_PER_CYCLE = 40
MOST_WORK = 40_000  # of a cycle, in offers of a group that is in few nets and may be on few devices


@frozen
class _Level:
    """One level of a cycle.

    Attributes:
        groups: How many groups are left.
        sweeps: How often each is offered a new device.
        ladder: The temperatures, which are the lower the finer the level.
    """

    groups: int
    sweeps: int
    ladder: Ladder


_LEVELS = (
    _Level(50, 80, Ladder(2e-3, 0.5)),
    _Level(150, 25, Ladder(1e-3, 0.1)),
    _Level(400, 10, Ladder(1e-4, 0.03)),
)
_FINEST_SWEEPS, _FINEST_LADDER = 10, Ladder(1e-4, 0.03)


@frozen
class Split:
    """A placement and what is known of it.

    Attributes:
        places: The accelerator of each operator, or `workload.HOST`.
        loads: The load of each accelerator in order and, as the last, that of the host.
        lower_bound: A max-load below which no placement is.
        missing: The bytes by which accelerators are too small in the best placement that was found; what they
            cannot run counts as all of their memory.
    """

    places: tuple[int, ...]
    loads: tuple[float, ...]
    lower_bound: float
    missing: float

    @property
    def max_load(self) -> float:
        """The largest load of a device."""
        return max(self.loads)


def search(
    workload: Workload,
    starts: tuple[tuple[int, ...], ...] = (),
    *,
    effort: int = 1,
    seed: int = 0,
    hurry: Callable[[], bool] = never,
) -> Split:
    """Search for the placement with the lowest max-load.

    Args:
        workload: The operators and devices.
        starts: Placements that are known. Each is the accelerator or `HOST` for each operator, and no result
            is worse than the best of them.
        effort: How many times the usual number of cycles to go through.
        seed: The seed of all chance.
        hurry: Says whether there is no more time; what has been found by then is the result. It is asked
            between the parts of the search, each of which takes about a second for 2,000 operators.

    Returns:
        The best placement that was found.

    Raises:
        ValueError: The workload has no operators or no accelerators, or a start separates what has to be
            together.
    """
    if not workload.operators or workload.accelerators < 1:
        raise ValueError("a search needs operators and at least one accelerator")
    problem = gather(workload)
    known = [*(_devices(problem, start) for start in starts), pack_components(problem)]
    best = _Best.among(problem, known, join_backward(workload, problem), hurry)
    scale = best.load if best.missing == 0 else lower_bound(problem, float("inf"))
    parts = join_inseparable(problem, scale) if best.missing == 0 else np.arange(problem.size)
    joined = merge(unordered(problem), parts)
    random = np.random.default_rng(seed)
    cycles = effort * _cycles(joined)
    for cycle in range(cycles):
        if hurry():
            break
        # A cycle that begins afresh is followed by one that improves what it has found.
        fresh = cycle % 2 == 0 and cycle + 1 < cycles
        so_far = _of_parts(parts, best.devices)
        found = _run_cycle(joined, so_far, max(scale, 1e-9), random, hurry, fresh=fresh)
        best = best.or_better(problem, found[parts])
    places = problem.places(best.devices)
    return Split(
        places,
        tuple(measure_loads(workload, places)),
        lower_bound(problem, best.load if best.missing == 0 else float("inf")),
        best.missing,
    )


@frozen(eq=False)
class _Best:
    """The best placement so far: the one that lacks the least, and of those the one with the lowest max-load.

    Attributes:
        devices: The device of each group.
        missing: What is not possible about it; see `Problem.excess`.
        load: Its max-load.
    """

    devices: Integers
    missing: float
    load: float

    @classmethod
    def among(
        cls, problem: Problem, known: list[Integers], partners: Integers | None, hurry: Callable[[], bool]
    ) -> _Best:
        """Return the best of some placements, of all on one accelerator, and of splits into pieces.

        Args:
            problem: The problem.
            known: The device of each group in the placements.
            partners: If given, there is also a split of the problem with these groups joined.
            hurry: Says whether there is no more time.
        """
        best = cls.of(problem, np.where(problem.supported, 0, problem.accelerators))
        for devices in known:
            best = best.or_better(problem, devices)
        for parts in (partners, np.arange(problem.size)):
            if parts is not None:
                best = best.or_split(problem, parts, hurry)
        return best

    def or_split(self, problem: Problem, parts: Integers, hurry: Callable[[], bool]) -> _Best:
        """Return the best of this placement and of splits into pieces.

        Args:
            problem: The problem.
            parts: The joined group of each group; only these are split.
            hurry: Says whether there is no more time.
        """
        best, joined = self, merge(problem, parts)
        least, most = WIDTHS
        for width in (1, max(least, min(most, MOST_PREFIXES // joined.size))):
            if hurry():
                break
            bound = best.load if best.missing == 0 else np.inf
            pieces = split_into_pieces(joined, width, bound, hurry)
            if pieces is not None:
                best = best.or_better(problem, pieces[parts])
        return best

    @classmethod
    def of(cls, problem: Problem, devices: Integers) -> _Best:
        """Return a placement with its figures."""
        return cls(devices, problem.excess(devices), float(problem.loads(devices).max()))

    def or_better(self, problem: Problem, devices: Integers) -> _Best:
        """Return the better one of this and another placement; this one if they are equal."""
        other = _Best.of(problem, devices)
        return other if (other.missing, other.load) < (self.missing, self.load) else self


def _run_cycle(
    problem: Problem,
    best: Integers,
    scale: float,
    random: np.random.Generator,
    hurry: Callable[[], bool],
    *,
    fresh: bool,
) -> Integers:
    """Return the best placement that a cycle finds.

    Args:
        problem: The problem.
        best: The device of each group in the best placement so far.
        scale: About the max-load of that placement.
        random: The source of chance.
        hurry: Says whether there is no more time.
        fresh: Whether the cycle begins without that placement.
    """
    problems, joints = [problem], list[Integers]()
    known = best
    for level in reversed(_LEVELS):
        if level.groups < problems[-1].size:
            joints.append(coarsen(problems[-1], level.groups, random, None if fresh else known))
            problems.append(merge(problems[-1], joints[-1]))
            known = known if fresh else _of_parts(joints[-1], known)
    starts = random.integers(0, problem.accelerators, (problems[-1].size, REPLICAS))
    if not fresh:
        starts[:, : REPLICAS // 2] = known[:, None]
    steps = [*((level.sweeps, level.ladder) for level in _LEVELS), (_FINEST_SWEEPS, _FINEST_LADDER)]
    work = sum(sweeps * count_work(each) for (sweeps, _), each in zip(steps, problems[::-1], strict=False))
    while True:
        sweeps, ladder = steps.pop(0)
        sweeps = max(1, int(sweeps * min(1.0, MOST_WORK / work)))
        found, loads = temper(problems.pop(), starts, scale, sweeps, ladder, random, hurry)
        ranked = found[:, np.argsort(loads, kind="stable")]  # the lowest temperatures get the best ones
        if not joints:
            return np.asarray(ranked[:, 0])
        starts = ranked[joints.pop()]


def count_work(problem: Problem) -> float:
    """Return how long a sweep takes, in offers of a group that is in few nets and may be on few devices.

    Every device in every replica adds a little to each offer, and again to each for each net.
    """
    states = (problem.accelerators + 1) * REPLICAS
    pins = sum(len(net) for net in problem.nets)
    return problem.size * (1 + states / 1000) + pins * states / 8000


def _cycles(problem: Problem) -> int:
    """Return how many cycles a problem gets: more if it is larger, and fewer if each of them is long."""
    offers = problem.size * _FINEST_SWEEPS + sum(
        level.groups * level.sweeps for level in _LEVELS if level.groups < problem.size
    )
    return max(2, min(MOST_CYCLES, problem.size // GROUPS_PER_CYCLE, MOST_OFFERS // offers))


def _of_parts(parts: Integers, devices: Integers) -> Integers:
    """Return the device of each joined group, all of whose groups are on one device."""
    known = np.empty(int(parts.max()) + 1, dtype=np.int64)
    known[parts] = devices
    return known


def _devices(problem: Problem, places: tuple[int, ...]) -> Integers:
    """Return the device of each group in a placement of the operators."""
    each = np.array([problem.accelerators if place < 0 else place for place in places], dtype=np.int64)
    devices = _of_parts(problem.group_of, each)
    if (devices[problem.group_of] != each).any():
        raise ValueError("operators that have to be together are on different devices")
    return devices


# --- what a search begins with ----------------------------------------------------------------------------


def lower_bound(problem: Problem, best: float) -> float:
    """Return a bound from below for the max-load of every placement.

    A placement better than the best known one has together what `join_inseparable` joins. So its max-load is
    at least that of each joined group on the device that is best for it, and at least what remains if groups
    could be cut at will and nothing had to be moved.

    Args:
        problem: The problem.
        best: The max-load of the best known placement; infinity if none is known.
    """
    joined = merge(unordered(problem), join_inseparable(problem, best))
    alone = joined.host_seconds if joined.host else np.full(joined.size, np.inf)
    best_alone = np.where(joined.supported, np.minimum(joined.seconds, alone), alone)
    return min(best, max(float(best_alone.max(initial=0.0)), _spread(joined)))


def _spread(problem: Problem) -> float:
    """Return the max-load if groups could be cut at will.

    The host takes those that it is best at, relative to an accelerator.
    """
    seconds = np.where(problem.supported, problem.seconds, 0.0)
    rest = float(seconds.sum())
    if not problem.host:
        return rest / problem.accelerators
    load = float(problem.host_seconds[~problem.supported].sum())
    movable = np.nonzero(problem.supported & (seconds > 0))[0]
    ratio = problem.host_seconds[movable] / seconds[movable]
    for group in movable[np.argsort(ratio, kind="stable")]:
        here, there = float(seconds[group]), float(problem.host_seconds[group])
        # The part of the group that makes both sides equal: load + part * there == (rest - part * here) /
        # accelerators.
        part = (rest / problem.accelerators - load) / (there + here / problem.accelerators)
        if part < 1.0:
            return max(load, (rest - max(part, 0.0) * here) / problem.accelerators)
        load, rest = load + there, rest - here
    return max(load, rest / problem.accelerators)


# --- parts of a graph that have nothing to do with each other, shared out among the devices ---------------


def pack_components(problem: Problem) -> Integers:
    """Return a placement in which nothing has to be moved, because every component is on one device.

    The longest component comes first, and each goes where the load is then the lowest (Graham, Bounds on
    multiprocessing timing anomalies, 1969). If there are many components, such as operators without edges, no
    placement is much better. If a component fits no device, it is on the one that it misses the least.

    Returns:
        The device of each group.
    """
    components = find_components(problem)
    joined = merge(unordered(problem), components)
    count = problem.accelerators
    loads = np.zeros(count + 1)
    room = np.append(np.full(count, float(problem.capacity)), np.inf)
    places = np.zeros(joined.size, dtype=np.int64)
    for part in np.argsort(-joined.seconds, kind="stable").tolist():
        after = loads + joined.seconds[part]
        after[count] = loads[count] + joined.host_seconds[part]
        possible = room >= joined.bytes[part]
        possible[:count] &= joined.supported[part]
        possible[count] = problem.host
        if possible.any():
            place = int(np.argmin(np.where(possible, after, np.inf)))
        else:
            place = int(np.argmax(room[:count]))
        loads[place] = after[place]
        room[place] -= joined.bytes[part]
        places[part] = place
    return places[components]


# --- backward operators joined with the forward operators that they belong to -----------------------------
#
# The gradient of an operator needs what the operator has read, so that in a good placement most gradients
# are where their operators are. Among pieces of such pairs, the best split is found sooner than among
# pieces that have operators and gradients in any mixture.


def join_backward(workload: Workload, problem: Problem) -> Integers | None:
    """Return which groups are joined so that every gradient is with its operator, as far as that can be seen.

    A backward operator is taken to belong to the last forward operator that it reads from. If it reads from
    none, it belongs to those of the backward operators that it reads from, to the first of them.

    Args:
        workload: The operators.
        problem: The problem that is made of them.

    Returns:
        The number of the joined group of each group, from 0 on; None if all of them have forward operators,
        or none has.
    """
    group_of, operators = problem.group_of.tolist(), workload.operators
    forward = {group for group, each in zip(group_of, operators, strict=True) if not each.backward}
    if not forward or len(forward) == problem.size:
        return None
    depths = _depths(operators, [not each.backward for each in operators])
    order = _depths(operators, [each.backward for each in operators])
    partners: dict[int, int] = {}  # by backward operator: the forward one that it belongs to
    for at in sorted(depths, key=lambda at: depths[at]):
        for reader in operators[at].readers:
            if operators[reader].backward:
                partners[reader] = at  # the last one that is read from remains
    read = set(partners)
    for at in sorted(order, key=lambda at: order[at]):
        for reader in operators[at].readers if at in partners else ():
            known = partners.get(reader)
            if reader not in read and (known is None or depths[partners[at]] < depths[known]):
                partners[reader] = partners[at]
    labels = list(range(problem.size))
    for at in order:
        if group_of[at] not in forward and at in partners:
            labels[group_of[at]] = group_of[partners[at]]
    return numbered(labels)


def _depths(operators: Sequence[Operator], among: Sequence[bool]) -> dict[int, int]:
    """Return for some operators how many are before each in the longest chain of them; not for cycles."""
    waits = [0] * len(operators)
    for at, each in enumerate(operators):
        for reader in each.readers if among[at] else ():
            waits[reader] += 1
    depths = {at: 0 for at, is_one in enumerate(among) if is_one and waits[at] == 0}
    ready = list(depths)
    for at in ready:  # grows while it is gone through
        for reader in operators[at].readers:
            if among[reader]:
                depths[reader] = max(depths.get(reader, 0), depths[at] + 1)
                waits[reader] -= 1
                if waits[reader] == 0:
                    ready.append(reader)
    return depths
