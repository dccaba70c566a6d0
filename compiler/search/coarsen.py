"""Smaller problems, in which groups that should share a device are one.

To move one operator of a long chain makes two transfers out of one, so that a search by single moves does
not get from one good placement to the next. In a coarse problem a move takes a whole part of the graph.
Groups are joined in pairs as in the multilevel method of graph partitioning (Karypis and Kumar, A fast and
high quality multilevel scheme for partitioning irregular graphs, 1998): each with the neighbour that shares
the most expensive nets with it.
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from attrs import frozen

from compiler.search.problem import Integers, Problem, merge, numbered

MOST_PAIRS = 250_000
"""The most pairs of groups that share a net which are looked at to join groups once."""


def coarsen(
    problem: Problem, target: int, random: np.random.Generator, apart: Integers | None = None
) -> Integers:
    """Join groups until about `target` of them are left.

    Args:
        target: How many groups to end with; more stay if no two of them should be joined.
        random: The source of chance, which decides the order in which groups choose.
        apart: If given, groups with different numbers here are not joined.

    Returns:
        The number of the joined group of each group, from 0 on.
    """
    parts = np.arange(problem.size)
    limit = max(1.5 * float(problem.seconds.sum()) / max(target, 1), float(problem.seconds.max(initial=0.0)))
    coarse, label = problem, apart
    while coarse.size > target:
        joined = _pairs(coarse, coarse.size - target, limit, random, label)
        if int(joined.max()) + 1 == coarse.size:
            break
        if label is not None:
            smaller = np.empty(int(joined.max()) + 1, dtype=np.int64)
            smaller[joined] = label
            label = smaller
        coarse, parts = merge(coarse, joined), joined[parts]
    return parts


def _pairs(
    problem: Problem, wanted: int, limit: float, random: np.random.Generator, apart: Integers | None
) -> Integers:
    """Return the groups with up to `wanted` pairs of them joined."""
    choice = _Choice.of(problem, limit, apart)
    joined = list(range(problem.size))
    free = [True] * problem.size
    for group in random.permutation(problem.size).tolist():
        if wanted == 0:
            break
        if not free[group]:
            continue
        other = choice.best(group, free)
        if other is not None:
            joined[other] = group
            free[other] = free[group] = False
            wanted -= 1
    return numbered(joined)


@frozen(eq=False)
class _Choice:
    """What the choice of a neighbour depends on."""

    problem: Problem
    limit: float  # the time on an accelerator that a pair may have
    # The nets of each group, without the largest ones if there are too many pairs of groups.
    nets_of: list[list[int]]
    seconds: list[float]  # the time of each group on an accelerator
    bytes: list[float]  # the memory of each group
    kinds: list[tuple[bool, int]]  # groups with different kinds are not joined

    @classmethod
    def of(cls, problem: Problem, limit: float, apart: Integers | None) -> _Choice:
        """Collect what is needed."""
        # What groups share in a net is the less, the more groups it has. So large nets are left out first.
        ranked = sorted(range(len(problem.nets)), key=lambda at: (len(problem.nets[at]), at))
        pairs = accumulate(len(problem.nets[at]) ** 2 for at in ranked)
        few = {at for at, total in zip(ranked, pairs, strict=True) if total <= MOST_PAIRS}
        nets_of = [[at for at in nets if at in few] for nets in problem.nets_of]
        labels = [0] * problem.size if apart is None else apart.tolist()
        kinds = list(zip(problem.supported.tolist(), labels, strict=True))
        return cls(problem, limit, nets_of, problem.seconds.tolist(), problem.bytes.tolist(), kinds)

    def best(self, group: int, free: list[bool]) -> int | None:
        """Return the free neighbour that shares the most, or None if it should be joined with none."""
        shared: dict[int, float] = {}
        for at in self.nets_of[group]:
            net = self.problem.nets[at]
            share = float(self.problem.costs[at]) / (len(net) - 1)
            for other in net:
                if other != group and free[other]:
                    shared[other] = shared.get(other, 0.0) + share
        gains = {
            other: cost / (self.limit + self.seconds[other] + self.seconds[group])
            for other, cost in shared.items()
            if self._fit(group, other)
        }
        return max(gains, key=lambda other: gains[other], default=None)

    def _fit(self, group: int, other: int) -> bool:
        """Say whether two groups may be joined."""
        return (
            self.kinds[other] == self.kinds[group]
            and self.seconds[other] + self.seconds[group] <= self.limit
            and self.bytes[other] + self.bytes[group] <= self.problem.capacity
        )
