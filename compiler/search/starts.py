"""What a search starts from: a bound of the max-load, placements by components, and pairs of operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.search.problem import (
    Integers,
    Operator,
    Problem,
    Workload,
    find_components,
    join_inseparable,
    merge,
    numbered,
    unordered,
)


def lower_bound(problem: Problem, best: float) -> float:
    """Return a bound from below for the max-load of every placement.

    A placement better than the best known one has together what `join_inseparable` joins. So its max-load is
    at least that of each joined group on the device that is best for it, and at least what remains if groups
    could be cut at will and nothing had to be moved.
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
