"""A workload as arrays: operators that share a device as one group, and transfers as nets between groups.

An output and all that read it form a net. An accelerator pays for the output if and only if it has some of
the net's operators and not all of them: either it has a reader without the source, or the source without a
reader. So the load of an accelerator depends on the set of its own operators alone, and to move a group
changes the loads of two devices only. The search rests on this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from compiler.search.workload import HOST, Workload

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_ROUNDS = 50
"""How often groups are joined because those that were joined before have become too long to separate."""


@frozen(eq=False)
class Problem:
    """A workload whose operators are gathered in groups.

    Attributes:
        accelerators: How many accelerators there are; the host is the device with this number.
        capacity: The memory of an accelerator, in bytes.
        host: Whether there is a host to place groups on.
        seconds: The time of each group on an accelerator.
        host_seconds: The time of each group on the host.
        bytes: The memory of each group.
        supported: Whether accelerators can run the group.
        nets: The groups of each net, ascending; at least two.
        costs: What each net costs an accelerator that has a part of it.
        order: Pairs of groups, the first of which comes before the second in the forward pass.
        group_of: The group of each operator of the workload.
    """

    accelerators: int
    capacity: float
    host: bool
    seconds: Floats
    host_seconds: Floats
    bytes: Floats
    supported: Flags
    nets: tuple[tuple[int, ...], ...]
    costs: Floats
    order: frozenset[tuple[int, int]]
    group_of: Integers

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self.seconds)

    def loads(self, devices: Integers) -> Floats:
        """Return the load of each accelerator and, as the last, of the host."""
        count = self.accelerators + 1
        on_host = devices == self.accelerators
        loads = _sums(devices, np.where(on_host, self.host_seconds, self.seconds), count)
        for net, cost in zip(self.nets, self.costs, strict=True):
            parts = {int(devices[group]) for group in net}
            if len(parts) > 1:
                loads[[part for part in parts if part != self.accelerators]] += cost
        return loads

    def excess(self, devices: Integers) -> float:
        """Return by how much a placement is not possible: bytes too many, and all of what cannot be there."""
        on_accelerator = devices < self.accelerators
        taken = np.bincount(devices, self.bytes, self.accelerators + 1)[: self.accelerators]
        wrong = int(np.sum(on_accelerator & ~self.supported))
        if not self.host:
            wrong += int(np.sum(~on_accelerator))
        return float(np.maximum(taken - self.capacity, 0.0).sum()) + wrong * max(self.capacity, 1.0)

    def places(self, devices: Integers) -> tuple[int, ...]:
        """Return the place of each operator of the workload, from the device of each group."""
        each = devices[self.group_of]
        return tuple(HOST if device == self.accelerators else int(device) for device in each)


def gather(workload: Workload) -> Problem:
    """Return a workload with the operators that have to be together as one group.

    The order is that of the forward pass. A group that has backward operators only stands in it as if it were
    the forward part of itself: before the groups whose backward operators it reads from.
    """
    numbers: dict[tuple[str, object], int] = {}
    group_of = np.array(
        [
            numbers.setdefault(
                ("operator", at) if each.together is None else ("together", each.together), len(numbers)
            )
            for at, each in enumerate(workload.operators)
        ],
        dtype=np.int64,
    )
    count = len(numbers)
    operators = workload.operators
    forward = np.zeros(count, dtype=bool)
    supported = np.ones(count, dtype=bool)
    for group, each in zip(group_of, operators, strict=True):
        forward[group] |= not each.backward
        supported[group] &= each.supported
    costs: dict[tuple[int, ...], float] = {}
    order: set[tuple[int, int]] = set()
    for at, each in enumerate(operators):
        source = int(group_of[at])
        net = tuple(sorted({source, *(int(group_of[reader]) for reader in each.readers)}))
        if len(net) > 1 and each.sends > 0:
            costs[net] = costs.get(net, 0.0) + each.sends
        for reader in each.readers:
            order |= _ordered(
                (source, each.backward),
                (int(group_of[reader]), operators[reader].backward),
                forward,
            )
    return Problem(
        workload.accelerators,
        workload.capacity,
        workload.host,
        _sums(group_of, [each.seconds for each in operators], count),
        _sums(group_of, [each.host_seconds for each in operators], count),
        _sums(group_of, [each.bytes for each in operators], count),
        supported,
        tuple(costs),
        np.array(list(costs.values()), dtype=np.float64),
        frozenset(order),
        group_of,
    )


def merge(problem: Problem, parts: Integers) -> Problem:
    """Return a problem with groups joined.

    Args:
        problem: The problem.
        parts: The number of the new group of each group; every number from 0 on occurs.
    """
    count = int(parts.max()) + 1 if len(parts) else 0
    costs: dict[tuple[int, ...], float] = {}
    for net, cost in zip(problem.nets, problem.costs, strict=True):
        joined = tuple(sorted({int(parts[group]) for group in net}))
        if len(joined) > 1:
            costs[joined] = costs.get(joined, 0.0) + float(cost)
    order = {(int(parts[first]), int(parts[second])) for first, second in problem.order}
    return Problem(
        problem.accelerators,
        problem.capacity,
        problem.host,
        _sums(parts, problem.seconds, count),
        _sums(parts, problem.host_seconds, count),
        _sums(parts, problem.bytes, count),
        np.bincount(parts, ~problem.supported, count) == 0,
        tuple(costs),
        np.array(list(costs.values()), dtype=np.float64),
        frozenset(pair for pair in order if pair[0] != pair[1]),
        parts[problem.group_of],
    )


def unordered(problem: Problem) -> Problem:
    """Return a problem without the order of its groups.

    Loads do not depend on it, and without it, groups are joined in less time.
    """
    return evolve(problem, order=frozenset())


def join_inseparable(problem: Problem, best: float) -> Integers:
    """Return which groups no placement with a max-load below `best` separates.

    If two groups of a net are apart, an accelerator has one of them and not the other, and pays for that
    group and for the net. Nets for which this alone is more than `best` are joined, until no such net is
    left or `MOST_ROUNDS` have been gone through.

    Returns:
        The number of the joined group of each group, from 0 on.
    """
    problem, parts = unordered(problem), np.arange(problem.size)
    for _ in range(MOST_ROUNDS):
        joined = merge(problem, parts)
        heavy = [
            net
            for net, cost in zip(joined.nets, joined.costs, strict=True)
            if cost + min(joined.seconds[group] for group in net) > best
        ]
        if not heavy:
            break
        parts = numbered(_union(joined.size, heavy))[parts]
    return parts


def find_components(problem: Problem) -> Integers:
    """Return the number of the connected component of each group: components share no net."""
    return numbered(_union(problem.size, problem.nets))


def numbered(labels: Iterable[int]) -> Integers:
    """Return labels as numbers from 0 on, in the order in which they first occur."""
    numbers: dict[int, int] = {}
    return np.array([numbers.setdefault(int(label), len(numbers)) for label in labels], dtype=np.int64)


def _sums(labels: Integers, values: Floats | list[float], count: int) -> Floats:
    """Return the sum of the values of each label."""
    return np.asarray(np.bincount(labels, values, count), dtype=np.float64)


def _ordered(
    source: tuple[int, bool], reader: tuple[int, bool], forward: Flags | Mapping[int, bool]
) -> set[tuple[int, int]]:
    """Return the order of two groups that follows from an edge, as a set of one pair or of none."""
    (first, first_backward), (second, second_backward) = source, reader
    if first == second:
        return set()
    if not first_backward and (not second_backward or not forward[second]):
        return {(first, second)}
    if first_backward and second_backward and not (forward[first] and forward[second]):
        return {(second, first)}
    return set()


def _union(count: int, sets: Iterable[Iterable[int]]) -> list[int]:
    """Return a label for each of `count` things, which is the same for things that sets connect."""
    labels = list(range(count))

    def root(thing: int) -> int:
        while labels[thing] != thing:
            labels[thing] = labels[labels[thing]]
            thing = labels[thing]
        return thing

    for each in sets:
        first, *others = each
        for other in others:
            labels[root(other)] = root(first)
    return [root(thing) for thing in range(count)]
