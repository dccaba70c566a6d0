"""A workload as arrays: operators that share a device as one group, and transfers as nets between groups.

An output and all that read it form a net. An accelerator pays for the output if and only if it has some of
the net's operators and not all of them: either it has a reader without the source, or the source without a
reader. So the load of an accelerator depends on the set of its own operators alone, and to move a group
changes the loads of two devices only. The search rests on this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_ROUNDS = 50
"""How often groups are joined because those that were joined before have become too long to separate."""


@frozen(eq=False)
class Problem:
    """A workload whose operators are gathered in groups."""

    accelerators: int  # how many accelerators there are; the host is the device with this number
    capacity: float  # the memory of an accelerator, in bytes
    host: bool
    seconds: Floats  # the time of each group on an accelerator
    host_seconds: Floats  # the time of each group on the host
    bytes: Floats
    supported: Flags  # whether accelerators can run the group
    nets: tuple[tuple[int, ...], ...]  # the groups of each net, ascending; at least two
    costs: Floats  # what each net costs an accelerator that has a part of it
    # Pairs of groups, the first of which comes before the second in the forward pass.
    order: frozenset[tuple[int, int]]
    group_of: Integers  # the group of each operator of the workload

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self.seconds)

    @property
    def nets_of(self) -> list[list[int]]:
        """The numbers of the nets of each group."""
        found: list[list[int]] = [[] for _ in range(self.size)]
        for at, net in enumerate(self.nets):
            for group in net:
                found[group].append(at)
        return found

    @property
    def readers(self) -> list[list[int]]:
        """The groups that come right after each group."""
        found: list[list[int]] = [[] for _ in range(self.size)]
        for first, second in sorted(self.order):
            found[first].append(second)
        return found

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
    operators = workload.operators
    group_of = numbered(
        ("operator", at) if each.together is None else ("together", each.together)
        for at, each in enumerate(operators)
    )
    forward = np.bincount(group_of, [not each.backward for each in operators]) > 0
    nets = [(tuple(sorted({at, *each.readers})), each.sends) for at, each in enumerate(operators)]
    nets = [(net, sends) for net, sends in nets if sends > 0]
    order: set[tuple[int, int]] = set()
    for at, each in enumerate(operators):
        source = (int(group_of[at]), each.backward)
        for reader in each.readers:
            order |= _ordered(source, (int(group_of[reader]), operators[reader].backward), forward)
    alone = Problem(
        workload.accelerators,
        workload.capacity,
        workload.host,
        np.array([each.seconds for each in operators], dtype=np.float64),
        np.array([each.host_seconds for each in operators], dtype=np.float64),
        np.array([each.bytes for each in operators], dtype=np.float64),
        np.array([each.supported for each in operators]),
        tuple(net for net, _ in nets),
        np.array([sends for _, sends in nets], dtype=np.float64),
        frozenset(),
        np.arange(len(operators)),
    )
    return evolve(merge(alone, group_of), order=frozenset(order))


def merge(problem: Problem, parts: Integers) -> Problem:
    """Return a problem with groups joined; `parts` has the number of the new group of each, all from 0 on."""
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


def numbered(labels: Iterable[Hashable]) -> Integers:
    """Return labels as numbers from 0 on, in the order in which they first occur."""
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)


def _sums(labels: Integers, values: Floats, count: int) -> Floats:
    return np.asarray(np.bincount(labels, values, count), dtype=np.float64)


def _ordered(source: tuple[int, bool], reader: tuple[int, bool], forward: Flags) -> set[tuple[int, int]]:
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


# --- what is to be placed: operators with their costs, and the devices that there are ---------------------
#
# The measure is the max-load of Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph
# Operators (NeurIPS 2020): the largest load of a device, which is the time per sample of a full pipeline.


HOST = -1
"""The place of an operator that is on the host instead of an accelerator."""


@frozen
class Operator:
    """One operator of a graph."""

    name: str
    seconds: float = 0.0  # its time on an accelerator, in any unit that all times share
    host_seconds: float = 0.0  # its time on the host, in the same unit
    bytes: float = 0.0  # the memory that it takes on an accelerator
    sends: float = 0.0  # the time to move its output between an accelerator and the memory of the host
    readers: tuple[int, ...] = ()  # the operators that read its output, as places in `Workload.operators`
    supported: bool = True  # whether accelerators can run it
    backward: bool = False
    together: Hashable = None  # operators with the same value, other than None, have to be on the same device


@frozen
class Workload:
    """Operators and the devices that they are to be placed on."""

    operators: tuple[Operator, ...]
    accelerators: int  # how many accelerators there are, which are all alike
    capacity: float  # the memory of each accelerator, in bytes
    host: bool = True  # whether operators may be on the host, whose memory has no bound


def measure_loads(workload: Workload, places: Sequence[int]) -> list[float]:
    """Return the load of each device, by the definition and without any of the search's own tables.

    The load of an accelerator is the time of its operators, and what it costs to move each output that it
    reads from elsewhere, once, and each of its own outputs that is read elsewhere, once. The load of the host
    is the time of its operators.

    Returns:
        The loads of the accelerators in order, and that of the host as the last.
    """
    loads = [0.0] * (workload.accelerators + 1)
    for operator, place in zip(workload.operators, places, strict=True):
        loads[place] += operator.host_seconds if place == HOST else operator.seconds
        reading = {places[reader] for reader in operator.readers}
        if place != HOST and reading - {place}:
            loads[place] += operator.sends
        for other in reading - {place, HOST}:
            loads[other] += operator.sends
    return loads
