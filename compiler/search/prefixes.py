"""Sets of groups that a pipeline's first devices may hold: those that contain what comes before any member.

There are often few (a few hundred for a chain of residual blocks), and sometimes exponentially many (for
parallel branches). In the second case some are kept for each size: those with the least to send, and some
that differ in their work.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from compiler.search.growth import grow
from compiler.search.problem import Flags, Integers, Problem, merge, numbered


@frozen(eq=False)
class Prefixes:
    """Sets of groups, in the order of their work.

    Attributes:
        parts: For each group of the problem the part that it belongs to; groups in a cycle are one part.
        problem: The problem with these parts as its groups.
        members: For each prefix and part, whether the part is in the prefix; the first prefix is empty, and
            the last is everything.
        words: The same as bits, 64 in a word.
        cut: How many nets each prefix cuts.
        wanted: If not all can be looked at, those with the smallest numbers should be.
        complete: Whether these are all prefixes there are.
    """

    parts: Integers
    problem: Problem
    members: Flags
    words: NDArray[np.uint64]
    cut: Integers
    wanted: Integers
    complete: bool


def find_prefixes(problem: Problem, width: int) -> Prefixes:
    """Find the prefixes of the forward pass."""
    parts = _cycles(problem.size, problem.order)
    joined = merge(problem, parts)
    levels, complete = grow(joined, width)
    members, cut = (np.concatenate(each) for each in zip(*((a.members, a.cut) for a in levels), strict=True))
    # The lowest bit that is set in a size is the larger, the fewer sizes share it.
    sizes = members.sum(axis=1)
    return _ranked(parts, joined, members, cut, -(sizes & -sizes), complete=complete)


def find_wanted(prefixes: Prefixes, count: int) -> Prefixes:
    """Return those of some prefixes that are wanted the most, with the empty one and that of everything."""
    ranked = np.argsort(prefixes.wanted[1:-1], kind="stable")[:count] + 1
    rows = np.concatenate([[0], np.sort(ranked), [len(prefixes.members) - 1]])
    return evolve(
        prefixes,
        members=prefixes.members[rows],
        words=prefixes.words[rows],
        cut=prefixes.cut[rows],
        wanted=prefixes.wanted[rows],
        complete=prefixes.complete and len(rows) == len(prefixes.members),
    )


def find_neighbours(prefixes: Prefixes, middle: Iterable[int], count: int) -> Prefixes:
    """Find the prefixes that differ the least from some of those that were found.

    Returns:
        The prefixes nearby, the empty one, and that of everything.
    """
    problem = prefixes.problem
    near = _Nearby.of(problem)
    whole = (1 << problem.size) - 1
    found = {0: 0, whole: 0}
    for row in middle:
        start = int.from_bytes(prefixes.words[row].tobytes(), "little")
        for distance, each in enumerate(near.find(start, count)):
            found[each] = min(distance, found.get(each, distance))
    words = prefixes.words.shape[1]
    raw = b"".join(each.to_bytes(words * 8, "little") for each in found)
    octets = np.frombuffer(raw, np.uint8).reshape(len(found), words * 8)
    members = np.unpackbits(octets, axis=1, bitorder="little")[:, : problem.size].astype(bool)
    held = members.astype(np.float32) @ net_members(problem)
    sizes = np.array([len(net) for net in problem.nets], dtype=np.float32)
    cut = ((held > 0) & (held < sizes)).sum(axis=1)
    return _ranked(prefixes.parts, problem, members, cut, np.array(list(found.values())), complete=False)


def net_members(problem: Problem) -> NDArray[np.float32]:
    """Return for each group and net a one if the group is in the net, and otherwise a zero."""
    has = np.zeros((problem.size, len(problem.nets)), dtype=np.float32)
    for at, net in enumerate(problem.nets):
        has[list(net), at] = 1.0
    return has


@frozen(eq=False)
class _Nearby:
    """What is needed to go from a prefix to its neighbours, which differ from it by one group.

    Attributes:
        needs: The groups that come right before each group, as bits.
        read_by: The groups that come right after each group, as bits.
        touched: The groups that a group can make movable or not: itself, and those right before and after it.
    """

    needs: list[int]
    read_by: list[int]
    touched: list[list[int]]

    @classmethod
    def of(cls, problem: Problem) -> _Nearby:
        """Collect what is needed."""
        needs, read_by = [0] * problem.size, [0] * problem.size
        touched: list[list[int]] = [[group] for group in range(problem.size)]
        for first, second in sorted(problem.order):
            needs[second] |= 1 << first
            read_by[first] |= 1 << second
            touched[first].append(second)
            touched[second].append(first)
        return cls(needs, read_by, touched)

    def find(self, start: int, count: int) -> list[int]:
        """Return up to `count` prefixes, those that differ the least from one to start with."""
        near = {start: self._movable(start, range(len(self.needs)), ())}
        pending = [start]
        at = 0
        # Which groups are movable is computed for those prefixes only that are gone on from.
        origin: dict[int, tuple[int, int]] = {}
        while at < len(pending) and len(pending) < count:
            prefix = pending[at]
            at += 1
            if prefix in origin:
                before, group = origin[prefix]
                near[prefix] = self._movable(prefix, self.touched[group], near[before])
            for group in near[prefix]:
                other = prefix ^ 1 << group
                if other != start and other not in origin:
                    origin[other] = prefix, group
                    pending.append(other)
        return pending[:count]

    def _movable(self, prefix: int, touched: Iterable[int], known: Iterable[int]) -> list[int]:
        """Return which groups can be added to or taken from a prefix, ascending."""
        movable = set(known).difference(touched)
        for group in touched:
            inside = prefix >> group & 1
            if not (self.read_by[group] & prefix if inside else self.needs[group] & ~prefix):
                movable.add(group)
        return sorted(movable)


def _ranked(
    parts: Integers, joined: Problem, members: Flags, cut: Integers, wanted: Integers, *, complete: bool
) -> Prefixes:
    """Return prefixes in the order of their work."""
    ranked = np.lexsort((members.sum(axis=1), members @ joined.seconds))
    octets = np.zeros((len(members), -(-max(joined.size, 1) // 64) * 8), dtype=np.uint8)
    packed = np.packbits(members[ranked], axis=1, bitorder="little")
    octets[:, : packed.shape[1]] = packed
    return Prefixes(
        parts, joined, members[ranked], octets.view(np.uint64), cut[ranked], wanted[ranked], complete
    )


def _cycles(count: int, edges: frozenset[tuple[int, int]]) -> Integers:
    """Return the strongly connected component of each group, by Tarjan's algorithm without recursion."""
    readers: list[list[int]] = [[] for _ in range(count)]
    for first, second in sorted(edges):
        readers[first].append(second)
    index = [-1] * count
    low = [0] * count
    label = [-1] * count
    path: list[int] = []
    seen = 0
    for start in range(count):
        pending = [(start, 0)] if index[start] < 0 else []
        while pending:
            group, at = pending.pop()
            if at == 0:
                index[group] = low[group] = seen
                seen += 1
                path.append(group)
            else:
                low[group] = min(low[group], low[readers[group][at - 1]])
            while at < len(readers[group]):
                other = readers[group][at]
                at += 1
                if index[other] < 0:
                    pending += [(group, at), (other, 0)]
                    break
                if label[other] < 0:
                    low[group] = min(low[group], index[other])
            else:
                if low[group] == index[group]:
                    while label[group] < 0:
                        label[path.pop()] = group
    return numbered(label)
