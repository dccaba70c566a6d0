"""Sets of groups that a pipeline's first devices may hold: those that contain what comes before any member.

There are often few (a few hundred for a chain of residual blocks), and sometimes exponentially many (for
parallel branches). In the second case some are kept for each size: those with the least to send, and some
that differ in their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from compiler.search.problem import Flags, Integers, Problem, merge, numbered


@frozen(eq=False)
class Prefixes:
    """Sets of groups, in the order of their work.

    Attributes:
        parts: For each group of the problem the part that it belongs to; groups in a cycle are one part.
        problem: The problem with these parts as its groups.
        members: For each prefix and part, whether the part is in the prefix; the first prefix is empty, and
        the
            last is everything.
        words: The same as bits, 64 in a word.
        complete: Whether these are all prefixes there are.
    """

    parts: Integers
    problem: Problem
    members: Flags
    words: NDArray[np.uint64]
    complete: bool


def find_prefixes(problem: Problem, width: int) -> Prefixes:
    """Find the prefixes of the forward pass.

    Args:
        problem: The problem.
        width: How many prefixes of one size are kept at most.
    """
    parts = _cycles(problem.size, problem.order)
    joined = merge(problem, parts)
    sets, complete = _grow(joined, width)
    return _ranked(parts, joined, sets, complete=complete)


def find_neighbours(prefixes: Prefixes, middle: Iterable[int], count: int) -> Prefixes:
    """Find the prefixes that differ the least from some of those that were found.

    Args:
        prefixes: The prefixes that were found.
        middle: The rows of those that others are to be near to.
        count: How many to find for each of them.

    Returns:
        The prefixes nearby, the empty one, and that of everything.
    """
    problem = prefixes.problem
    needs, readers = _needs(problem)
    read_by = [sum(1 << each for each in others) for others in readers]
    whole = (1 << problem.size) - 1
    found = {0: None, whole: None}
    for row in middle:
        start = int.from_bytes(prefixes.words[row].tobytes(), "little")
        near = {start: None}
        for prefix in _near_first(near, count):
            for group in range(problem.size):
                bit = 1 << group
                inside = prefix & bit
                if not (read_by[group] & prefix if inside else needs[group] & ~prefix):
                    near.setdefault(prefix ^ bit)
        found |= dict.fromkeys(list(near)[:count])
    return _ranked(prefixes.parts, problem, list(found), complete=False)


def _near_first(near: Mapping[int, None], count: int) -> Iterator[int]:
    """Yield what is in a dictionary, and what is added to it meanwhile, until it has `count` entries."""
    at = 0
    pending = list(near)
    while at < len(pending) and len(near) < count:
        yield pending[at]
        at += 1
        pending += list(islice(near, len(pending), None))


def _ranked(parts: Integers, joined: Problem, sets: list[int], *, complete: bool) -> Prefixes:
    """Return sets of bits as prefixes in the order of their work."""
    words = -(-max(joined.size, 1) // 64)
    raw = b"".join(each.to_bytes(words * 8, "little") for each in sets)
    octets = np.frombuffer(raw, np.uint8).reshape(len(sets), words * 8)
    members = np.unpackbits(octets, axis=1, bitorder="little")[:, : joined.size].astype(bool)
    work = members @ joined.seconds
    ranked = np.lexsort((members.sum(axis=1), work))
    return Prefixes(
        parts, joined, members[ranked], octets.view(np.uint64).reshape(len(sets), words)[ranked], complete
    )


def _grow(problem: Problem, width: int) -> tuple[list[int], bool]:
    """Return the prefixes as sets of bits, smallest first, and whether they are all."""
    needs, readers = _needs(problem)
    nets = [
        (sum(1 << group for group in net), float(cost))
        for net, cost in zip(problem.nets, problem.costs, strict=True)
    ]
    level: dict[int, tuple[int, ...]] = {0: tuple(group for group in range(problem.size) if not needs[group])}
    seconds, work = problem.seconds.tolist(), {0: 0.0}
    found = [0]
    complete = True
    for _ in range(problem.size):
        larger: dict[int, tuple[int, ...]] = {}
        grown_work: dict[int, float] = {}
        for prefix, ready in level.items():
            for group in ready:
                grown = prefix | 1 << group
                if grown not in larger:
                    freed = [each for each in readers[group] if not needs[each] & ~grown]
                    grown_work[grown] = work[prefix] + seconds[group]
                    larger[grown] = (*(each for each in ready if each != group), *freed)
        if len(larger) > width:
            complete = False
            larger = {each: larger[each] for each in _chosen(larger, width, nets, grown_work)}
        level, work = larger, grown_work
        found += level
    return found, complete


def _needs(problem: Problem) -> tuple[list[int], list[list[int]]]:
    """Return the groups that come right before each group, as bits, and those that come right after it."""
    needs = [0] * problem.size
    readers: list[list[int]] = [[] for _ in range(problem.size)]
    for first, second in sorted(problem.order):
        needs[second] |= 1 << first
        readers[first].append(second)
    return needs, readers


def _chosen(
    prefixes: Iterable[int], width: int, nets: Sequence[tuple[int, float]], work: Mapping[int, float]
) -> set[int]:
    """Return the prefixes with the least to send, and as many that differ in their work, `width` in all.

    The latter are those at equal steps in the order of their work, so that a piece can end wherever
    devices are equally busy.
    """
    ranked = sorted(prefixes, key=lambda each: (_sent(each, nets), each))
    kept, others = ranked[: width - width // 2], ranked[width - width // 2 :]
    others.sort(key=lambda each: (work[each], each))
    steps = width - len(kept)
    return {*kept, *(others[(len(others) - 1) * at // max(steps - 1, 1)] for at in range(steps))}


def _sent(prefix: int, nets: Sequence[tuple[int, float]]) -> float:
    """Return what the nets cost that a prefix cuts."""
    return sum(cost for net, cost in nets if prefix & net and net & ~prefix)


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
