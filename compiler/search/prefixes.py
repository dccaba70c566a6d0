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

from compiler.search.problem import Flags, Floats, Integers, Problem, merge, numbered


@frozen(eq=False)
class Prefixes:
    """Sets of groups, in the order of their work."""

    # For each group of the problem the part that it belongs to; groups in a cycle are one part.
    parts: Integers
    problem: Problem  # the problem with these parts as its groups
    # For each prefix and part, whether the part is in the prefix; the first prefix is empty, and the last is
    # everything.
    members: Flags
    words: NDArray[np.uint64]  # the same as bits, 64 in a word
    cut: Integers  # how many nets each prefix cuts
    wanted: Integers  # if not all can be looked at, those with the smallest numbers should be
    complete: bool  # whether these are all prefixes there are


def find_prefixes(problem: Problem, width: int) -> Prefixes:
    """Find the prefixes of the forward pass."""
    parts = _cycles(problem)
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
    """What is needed to go from a prefix to its neighbours, which differ from it by one group."""

    needs: list[int]  # the groups that come right before each group, as bits
    read_by: list[int]  # the groups that come right after each group, as bits
    # The groups that a group can make movable or not: itself, and those right before and after it.
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
    ranked = np.lexsort((members.sum(axis=1), members @ joined.seconds))
    octets = np.zeros((len(members), -(-max(joined.size, 1) // 64) * 8), dtype=np.uint8)
    packed = np.packbits(members[ranked], axis=1, bitorder="little")
    octets[:, : packed.shape[1]] = packed
    return Prefixes(
        parts, joined, members[ranked], octets.view(np.uint64), cut[ranked], wanted[ranked], complete
    )


def _cycles(problem: Problem) -> Integers:
    """Return the strongly connected component of each group, by Tarjan's algorithm without recursion."""
    readers, count = problem.readers, problem.size
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


# --- prefixes of one size after the other, a few of each size ---------------------------------------------
#
# A prefix grows by a group that is ready, which is to say one that has all that comes before it in the
# prefix. What the grown prefix has to send follows from what the prefix has to send and from a number that
# is kept for each group: what its addition changes. Each net changes that number only twice: for all of its
# groups if the first one is added, and for the last one if no other is left. So the time to grow is for
# each size about the number of groups, however many groups are ready, and however many nets there are.


_UNITS = float(1 << 46)  # units of cost in all of them; whole numbers have the same sum in any order
_CANDIDATES = 64  # ready groups of a prefix that are looked at, or one more than prefixes are kept


@frozen(eq=False)
class Level:
    """Prefixes of one size."""

    members: Flags  # for each prefix and group, whether the group is in the prefix
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
    """What prefixes grow by."""

    size: int
    seconds: Floats  # the time of each group on an accelerator
    by_seconds: Integers  # the groups in the order of their time
    before: Integers  # how many groups come right before each group
    readers: list[Integers]  # the groups that come right after each group
    pins: list[Integers]
    sizes: Integers  # how many these are
    costs: Integers  # what each net costs, in units
    nets_of: list[Integers]
    # A random number for each group; the sum of those of its groups tells prefixes apart.
    marks: NDArray[np.uint64]

    @classmethod
    def of(cls, problem: Problem) -> _Graph:
        """Collect what is needed."""
        unit = _UNITS / (float(problem.costs.sum()) or 1.0)
        return cls(
            problem.size,
            problem.seconds,
            np.argsort(problem.seconds, kind="stable"),
            np.bincount([after for _, after in problem.order], minlength=problem.size),
            [np.array(each, dtype=np.int64) for each in problem.readers],
            [np.array(net, dtype=np.int64) for net in problem.nets],
            np.array([len(net) for net in problem.nets], dtype=np.int64),
            np.rint(problem.costs * unit).astype(np.int64),
            [np.array(nets, dtype=np.int64) for nets in problem.nets_of],
            np.random.default_rng(0).integers(0, 1 << 64, problem.size, dtype=np.uint64),
        )


@frozen(eq=False)
class _Front:
    """Prefixes of one size, with a row for each."""

    members: Flags  # whether each group is in the prefix
    waiting: Integers  # how many groups that come right before each group are not in the prefix
    held: Integers  # how many groups of each net are in the prefix
    change: Integers  # by how much the addition of each group that is not in the prefix changes what is sent
    sent: Integers  # what the nets cost that the prefix cuts
    work: Floats  # the time of the prefix on an accelerator
    mark: NDArray[np.uint64]  # the sum of the marks of its groups

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
