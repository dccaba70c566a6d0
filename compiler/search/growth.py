"""Prefixes of one size after the other, a few of each size.

A prefix grows by a group that is ready, which is to say one that has all that comes before it in the prefix.
What the grown prefix has to send follows from what the prefix has to send and from a number that is kept for
each group: what its addition changes. Each net changes that number only twice: for all of its groups if the
first one is added, and for the last one if no other is left. So the time to grow is for each size about the
number of groups, however many groups are ready, and however many nets there are.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from compiler.search.problem import Flags, Floats, Integers, Problem

_UNITS = float(1 << 46)  # units of cost in all of them; whole numbers have the same sum in any order
_CANDIDATES = 64  # ready groups of a prefix that are looked at, or one more than prefixes are kept


@frozen(eq=False)
class Level:
    """Prefixes of one size.

    Attributes:
        members: For each prefix and group, whether the group is in the prefix.
        cut: How many nets each prefix cuts.
    """

    members: Flags
    cut: Integers


def grow(problem: Problem, width: int) -> tuple[list[Level], bool]:
    """Return prefixes of every size from none to all groups, and whether they are all that there are."""
    graph = _Graph.of(problem)
    front = _Front.empty(graph)
    levels = [front.level(graph)]
    complete = True
    for _ in range(problem.size):
        rows, groups = front.candidates(graph, max(_CANDIDATES, width + 1))
        if len(rows) > width:
            complete = False
            chosen = _choose(
                front.sent[rows] + front.change[rows, groups],
                front.work[rows] + problem.seconds[groups],
                width,
            )
            rows, groups = rows[chosen], groups[chosen]
        front = front.grown(graph, rows, groups)
        levels.append(front.level(graph))
    return levels, complete


def _choose(sent: Integers, work: Floats, width: int) -> Integers:
    """Return which candidates to keep: those with the least to send, and as many that differ in their work.

    The latter are those at equal steps in the order of their work, so that a piece can end wherever devices
    are equally busy.
    """
    ranked = np.argsort(sent, kind="stable")
    kept, others = ranked[: width - width // 2], ranked[width - width // 2 :]
    others = others[np.argsort(work[others], kind="stable")]
    return np.concatenate([kept, others[_steps(len(others), width - len(kept))]])


def _steps(length: int, count: int) -> Integers:
    """Return `count` places at equal steps in something of some length, the first and the last included."""
    return np.arange(count) * (length - 1) // max(count - 1, 1)


@frozen(eq=False)
class _Graph:
    """What prefixes grow by.

    Attributes:
        size: How many groups there are.
        seconds: The time of each group on an accelerator.
        by_seconds: The groups in the order of their time.
        before: How many groups come right before each group.
        readers: The groups that come right after each group.
        pins: The groups of each net.
        sizes: How many these are.
        costs: What each net costs, in units.
        nets_of: The nets of each group.
        marks: A random number for each group; the sum of those of its groups tells prefixes apart.
    """

    size: int
    seconds: Floats
    by_seconds: Integers
    before: Integers
    readers: list[Integers]
    pins: list[Integers]
    sizes: Integers
    costs: Integers
    nets_of: list[Integers]
    marks: NDArray[np.uint64]

    @classmethod
    def of(cls, problem: Problem) -> _Graph:
        """Collect what is needed."""
        readers: list[list[int]] = [[] for _ in range(problem.size)]
        before = np.zeros(problem.size, dtype=np.int64)
        for first, second in sorted(problem.order):
            readers[first].append(second)
            before[second] += 1
        nets_of: list[list[int]] = [[] for _ in range(problem.size)]
        for at, net in enumerate(problem.nets):
            for group in net:
                nets_of[group].append(at)
        unit = _UNITS / (float(problem.costs.sum()) or 1.0)
        return cls(
            problem.size,
            problem.seconds,
            np.argsort(problem.seconds, kind="stable"),
            before,
            [np.array(each, dtype=np.int64) for each in readers],
            [np.array(net, dtype=np.int64) for net in problem.nets],
            np.array([len(net) for net in problem.nets], dtype=np.int64),
            np.rint(problem.costs * unit).astype(np.int64),
            [np.array(nets, dtype=np.int64) for nets in nets_of],
            np.random.default_rng(0).integers(0, 1 << 64, problem.size, dtype=np.uint64),
        )


@frozen(eq=False)
class _Front:
    """Prefixes of one size, with a row for each.

    Attributes:
        members: Whether each group is in the prefix.
        waiting: How many groups that come right before each group are not in the prefix.
        held: How many groups of each net are in the prefix.
        change: By how much the addition of each group that is not in the prefix changes what is sent.
        sent: What the nets cost that the prefix cuts.
        work: The time of the prefix on an accelerator.
        mark: The sum of the marks of its groups.
    """

    members: Flags
    waiting: Integers
    held: Integers
    change: Integers
    sent: Integers
    work: Floats
    mark: NDArray[np.uint64]

    @classmethod
    def empty(cls, graph: _Graph) -> _Front:
        """Return the empty prefix."""
        change = np.zeros((1, graph.size), dtype=np.int64)
        for net, cost in zip(graph.pins, graph.costs, strict=True):
            change[0, net] += cost
        return cls(
            np.zeros((1, graph.size), dtype=bool),
            graph.before[None].copy(),
            np.zeros((1, len(graph.pins)), dtype=np.int64),
            change,
            np.zeros(1, dtype=np.int64),
            np.zeros(1),
            np.zeros(1, dtype=np.uint64),
        )

    def level(self, graph: _Graph) -> Level:
        """Return the prefixes with how many nets they cut."""
        return Level(self.members, ((self.held > 0) & (self.held < graph.sizes)).sum(axis=1))

    def candidates(self, graph: _Graph, most: int) -> tuple[Integers, Integers]:
        """Return the ways to grow, without those that lead to the same prefix as another.

        Args:
            graph: The graph.
            most: How many groups of a prefix are looked at; if more are ready, those that change what is sent
                the least, and as many that differ in their time.

        Returns:
            The rows, and the group that each is to be grown by.
        """
        ready = (self.waiting == 0) & ~self.members
        for row in np.nonzero(ready.sum(axis=1) > most)[0]:
            groups = np.nonzero(ready[row])[0]
            # No two keys are the same, so that those that are kept do not depend on how parts are sorted.
            keys = self.change[row, groups] * graph.size + groups
            least = groups[np.argpartition(keys, most // 2)[: most // 2]]
            ready[row, least] = False
            others = graph.by_seconds[ready[row, graph.by_seconds]]
            ready[row] = False
            ready[row, least] = True
            ready[row, others[_steps(len(others), most - most // 2)]] = True
        rows, groups = np.nonzero(ready)
        _, first = np.unique(self.mark[rows] + graph.marks[groups], return_index=True)
        first.sort()
        return rows[first], groups[first]

    def grown(self, graph: _Graph, rows: Integers, groups: Integers) -> _Front:
        """Return prefixes that are larger by a group."""
        front = _Front(
            self.members[rows],
            self.waiting[rows],
            self.held[rows],
            self.change[rows],
            self.sent[rows] + self.change[rows, groups],
            self.work[rows] + graph.seconds[groups],
            self.mark[rows] + graph.marks[groups],
        )
        front.members[np.arange(len(rows)), groups] = True
        for row, group in enumerate(groups.tolist()):
            front.waiting[row, graph.readers[group]] -= 1
            nets = graph.nets_of[group]
            front.held[row, nets] += 1
            held = front.held[row, nets]
            for net in nets[held == 1].tolist():
                front.change[row, graph.pins[net]] -= graph.costs[net]
            for net in nets[held == graph.sizes[nets] - 1].tolist():
                pins = graph.pins[net]
                front.change[row, pins[~front.members[row, pins]]] -= graph.costs[net]
        return front
