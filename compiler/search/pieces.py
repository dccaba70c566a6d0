"""The best split into pieces that follow each other, by dynamic programming over prefixes.

The piece between two nested prefixes is a set that one device may have. The best split of a prefix over `k`
devices is the best, over all smaller prefixes, of the larger of two loads: that of the rest on one device,
and that of the best split of the smaller prefix over `k - 1`. This is the dynamic program of Tarnawski et
al. (see `problem.py`), here over the prefixes that `prefixes.py` finds, and with the load of a piece
computed for all smaller prefixes at once: a net that is open at a prefix, which is to say has groups on both
sides of it, is paid by the piece that begins there unless the piece has nothing more of it, and by the piece
that ends there always, but only once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from compiler.search.prefixes import Prefixes, find_neighbours, find_prefixes, find_wanted, net_members
from compiler.search.problem import Floats, Integers, Problem
from compiler.search.tempering import never

REFINEMENTS = 2
NEIGHBOURS = 1500  # prefixes that a refinement looks at
MOST_WORK = 30_000_000  # numbers that a dynamic program computes; each takes a few nanoseconds
MOST_WANTED = 60 * MOST_WORK  # from here on, so few prefixes would be left that one of each size does as well
_HOST_BIT = 1


def split_into_pieces(
    problem: Problem, width: int, best: float = np.inf, hurry: Callable[[], bool] = never
) -> Integers | None:
    """Return the best split into consecutive pieces, one for each device.

    Args:
        width: How many prefixes of one size are looked at; see `prefixes.find_prefixes`.
        best: The max-load of a placement that is known; only better ones are looked for.
        hurry: Says whether there is no more time to refine what has been found.

    Returns:
        The device of each group; None if no such split is possible, or if the width is more than one and most
        of the prefixes could not be looked at anyway.
    """
    # The work is about proportional to the square of the width.
    if width > 1 and width**2 * count_work(find_prefixes(problem, 1), best) > MOST_WANTED:
        return None
    prefixes = _affordable(find_prefixes(problem, width), best)
    found = _best_split(prefixes, best)
    for _ in range(0 if prefixes.complete else REFINEMENTS):
        if found is None or hurry():
            break
        # With all that is near its cuts, the best split of the prefixes that were kept can be improved.
        near = find_neighbours(prefixes, found.cuts, NEIGHBOURS // max(1, len(found.cuts)))
        prefixes = _affordable(near, found.load)
        finer = _best_split(prefixes, found.load)
        if finer is None or finer.load >= found.load:
            break
        found = finer
    return None if found is None else found.devices


def _affordable(prefixes: Prefixes, best: float) -> Prefixes:
    """Return as many of some prefixes as keep the dynamic program within `MOST_WORK`."""
    while (work := count_work(prefixes, best)) > MOST_WORK:
        # The work is about proportional to the square of the number of prefixes.
        share = min(0.9, (MOST_WORK / work) ** 0.5)
        prefixes = find_wanted(prefixes, int(share * (len(prefixes.members) - 2)))
    return prefixes


def count_work(prefixes: Prefixes, best: float) -> int:
    """Return how many numbers the dynamic program computes at some prefixes.

    For each pair of prefixes, the second of which contains the first, these are one for each state, one for
    each word, and one for each net that either of them cuts.
    """
    early, late = _earliest(prefixes, best), np.arange(len(prefixes.members))
    cut = np.concatenate([[0], np.cumsum(prefixes.cut)])
    each = prefixes.words.shape[1] + 2 * (prefixes.problem.accelerators + 1) + prefixes.cut
    return int((cut[late] - cut[early]).sum() + ((late - early) * each).sum())


def _earliest(prefixes: Prefixes, best: float) -> Integers:
    """Return for each prefix the first one that the last piece of a split can begin at.

    Prefixes are in the order of their time on an accelerator, so that those that begin too early are the
    first ones.
    """
    problem = prefixes.problem
    shortest = np.minimum(problem.seconds, problem.host_seconds) if problem.host else problem.seconds
    if (shortest < problem.seconds).any():
        return np.zeros(len(prefixes.members), dtype=np.int64)
    seconds = prefixes.members.astype(np.float64) @ problem.seconds
    return np.searchsorted(seconds, seconds - best)


@frozen(eq=False)
class _Found:
    """A split into pieces."""

    devices: Integers
    load: float
    cuts: tuple[int, ...]  # the prefixes between its pieces, as rows


def _best_split(prefixes: Prefixes, best: float) -> _Found | None:
    problem = prefixes.problem
    table = _fill(prefixes, best)
    last = len(prefixes.members) - 1
    state = int(np.argmin(table.loads[:, last]))
    load = float(table.loads[state, last])
    if not np.isfinite(load):
        return None
    parts = np.full(problem.size, problem.accelerators)
    cuts = []
    while last > 0:
        first, came_from = int(table.starts[state, last]), int(table.states[state, last])
        on_host = (state ^ came_from) & _HOST_BIT
        piece = prefixes.members[last] & ~prefixes.members[first]
        parts[piece] = problem.accelerators if on_host else came_from >> 1
        state, last = came_from, first
        cuts.append(first)
    return _Found(np.asarray(parts[prefixes.parts]), load, tuple(each for each in cuts if each > 0))


@frozen(eq=False)
class _Table:
    """The dynamic program: a row for each state, twice the accelerators used plus one if the host is used."""

    loads: Floats  # the best max-load of each prefix
    starts: NDArray[np.int32]  # the prefix at which its last piece begins
    states: NDArray[np.int32]


def _fill(prefixes: Prefixes, best: float) -> _Table:
    """Fill the table, prefix by prefix, without pieces that take longer than `best`."""
    problem, count = prefixes.problem, len(prefixes.members)
    states = 2 * (problem.accelerators + 1)
    loads = np.full((states, count), np.inf)
    loads[0, 0] = 0.0
    starts = np.zeros((states, count), dtype=np.int32)
    before = np.zeros((states, count), dtype=np.int32)
    sums = _Sums.of(prefixes)
    ended = ~prefixes.words
    rows = np.arange(states)
    earliest = _earliest(prefixes, best)
    for last in range(1, count):
        early = int(earliest[last])
        first = early + np.nonzero(~(prefixes.words[early:last] & ended[last]).any(axis=1))[0]
        if not len(first):
            continue
        piece = sums.accelerator(first, last)
        reached = np.maximum(loads[:, first], piece)
        at = reached.argmin(axis=1)[:-2]
        loads[2:, last] = reached[rows[:-2], at]
        starts[2:, last], before[2:, last] = first[at], rows[:-2]
        if problem.host:
            reached = np.maximum(loads[0::2, first], sums.host(first, last))
            at = reached.argmin(axis=1)
            lower = reached[rows[: len(at)], at] < loads[1::2, last]
            loads[1::2, last][lower] = reached[rows[: len(at)], at][lower]
            starts[1::2, last][lower], before[1::2, last][lower] = first[at][lower], rows[0::2][lower]
    return _Table(loads, starts, before)


@frozen(eq=False)
class _Sums:
    """What prefixes hold, from which the load of the piece between two of them follows."""

    problem: Problem
    seconds: Floats  # the time of each prefix on an accelerator
    host_seconds: Floats  # the same on the host
    bytes: Floats
    unsupported: Integers  # how many of its groups accelerators cannot run
    held: NDArray[np.int16]  # for each prefix and net, how many of the net's groups it has
    untouched: NDArray[np.bool_]  # for each net and prefix, whether it has none of them
    # Where the open nets of each prefix begin in the next three, and where the last one's end.
    opens: Integers
    nets: Integers  # the open nets, prefix by prefix
    parts: NDArray[np.int16]  # how many of its groups the prefix has
    costs: Floats

    @classmethod
    def of(cls, prefixes: Prefixes) -> _Sums:
        """Compute the sums of all prefixes."""
        problem = prefixes.problem
        held = np.rint(prefixes.members.astype(np.float32) @ net_members(problem)).astype(np.int16)
        pins = np.array([len(net) for net in problem.nets], dtype=np.int16)
        is_open = (held > 0) & (held < pins)
        which, nets = np.nonzero(is_open)
        weights = prefixes.members.astype(np.float64)
        return cls(
            problem,
            weights @ problem.seconds,
            weights @ problem.host_seconds,
            weights @ problem.bytes,
            np.rint(weights @ (~problem.supported).astype(np.float64)).astype(np.int64),
            held,
            np.ascontiguousarray((held == 0).T),
            np.concatenate([[0], np.cumsum(is_open.sum(axis=1))]),
            nets,
            held[which, nets],
            problem.costs[nets],
        )

    def accelerator(self, first: Integers, last: int) -> Floats:
        """Return the load of an accelerator with the piece from each of some prefixes to a last one.

        It is infinite for a piece that an accelerator cannot have. The prefixes are given in their order.
        """
        begin, end = int(self.opens[first[0]]), int(self.opens[last])
        grown = self.held[last, self.nets[begin:end]] != self.parts[begin:end]
        paid = np.concatenate([[0.0], np.cumsum(self.costs[begin:end] * grown)])
        loads: Floats = paid[self.opens[first + 1] - begin] - paid[self.opens[first] - begin]
        loads += self.seconds[last] - self.seconds[first]
        for net in self.nets[end : self.opens[last + 1]]:
            loads += self.problem.costs[net] * self.untouched[net, first]
        bytes_ = self.bytes[last] - self.bytes[first]
        loads[(bytes_ > self.problem.capacity) | (self.unsupported[first] < self.unsupported[last])] = np.inf
        return loads

    def host(self, first: Integers, last: int) -> Floats:
        """Return the load of the host with the piece from each of some prefixes to a last one."""
        loads: Floats = self.host_seconds[last] - self.host_seconds[first]
        return loads
