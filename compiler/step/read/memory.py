"""The memory that a step needs on each device, in an order in which its ops could run.

Ops run in the order in which they become ready, and on each device two at a time: what an op has taken is
given back when the next one there has its results. A tensor is on the device that makes it, and on each that
it is sent to, until the last op there has used it. An op that only passes a tensor on shares its memory, and
elementwise ops write over an input that nothing else uses. Constants and variables are there anyway, so that
reading them takes nothing on their own device, unless the read waits for an update. Neither what an op needs
within itself is counted, nor what a loop in a function keeps from round to round.

Of all orders that were compared with the peaks of TensorFlow's allocator (that of the graph, the last that
became ready first, that of a simulation of time, each with one to five ops at a time), this one came nearest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from attrs import define, field, frozen

from compiler.mapping.records import MapTensor
from compiler.process import collector_paused
from compiler.step.edges import Edges, Links, Numbers, distinct
from compiler.step.read.rows import RowCounts
from compiler.step.read.transfers import LARGEST
from compiler.step.step import Step
from compiler.time.costs import PLAIN
from compiler.time.work import PASSED_ON

_OVER = PLAIN | {"BiasAdd", "SelectV2"}
"""The types of ops that write over an input that nothing else uses. Each makes one tensor."""

_NEVER = 1 << 29
"""The moment of what does not happen in a step; three times as much is still a number of 32 bits."""

_PHASES = 3
_WRITTEN_OVER, _MADE, _LEFT = range(_PHASES)
"""What happens to memory at a moment, in this order."""


@frozen
class StepMemory:
    """The peak of the tensors of a step on a device."""

    bytes: int  # the bytes of the tensors alive at the peak
    largest: tuple[MapTensor, ...]


def forecast_memory(step: Step, named: int | None = LARGEST) -> dict[str, StepMemory]:
    """Return the peak of a step on each device, without variables, by the device's name in specs.

    Args:
        step: The step. Tensors whose sizes are not known count as nothing.
        named: How many of the largest tensors are named; None for all.
    """
    with collector_paused():
        found = dict(_Run(step, named).peaks())
        nothing = StepMemory(0, ())
        return {each.ref: found.get(at, nothing) for at, each in enumerate(step.plan.topology.devices)}


@define
class _Run:
    """The ops of a step, which run one after the other. Each op that runs is a moment.

    A tensor is held on the device on which it is made, and on each that it is sent to.
    """

    step: Step
    named: int | None
    edges: Edges = field(init=False)
    bytes: Numbers = field(init=False)  # of each tensor
    taken: Numbers = field(init=False)  # the tensors that ops take, but for what a loop hands back
    takers: Numbers = field(init=False)  # the op of each of these
    writes_over: Numbers = field(init=False)  # whether each op may write over an input
    passed: Numbers = field(init=False)  # the tensors that are passed on
    passed_from: Numbers = field(init=False)  # where each of these is in `taken`, or -1
    moments: Numbers = field(init=False)  # of each op
    following: Numbers = field(init=False)  # the moment of the next op on the device of each

    def __attrs_post_init__(self) -> None:
        edges, rows = self.step.edges, RowCounts(self.step.ops)
        self.edges, self.bytes = edges, edges.bytes.copy()
        for at in np.flatnonzero(edges.bytes < 0).tolist():
            self.bytes[at] = rows.shaped(edges.made[at]).bytes or 0
        needed = self.step.runs
        back = edges.are("NextIteration")[edges.makers[edges.taken]] & edges.are("Merge")[edges.takers]
        there = needed[edges.takers] & ~back
        self.taken, self.takers = edges.taken[there], edges.takers[there]
        self.writes_over = edges.are(*_OVER)
        self._order(needed)
        self._pass_on(needed, there)

    def _pass_on(self, needed: Numbers, there: Numbers) -> None:
        """Note which results of ops are what these take, and not, for example, its shape."""
        edges = self.edges
        reads, alone, passing = edges.are("ReadVariableOp"), np.diff(edges.begin) == 0, edges.are(*PASSED_ON)
        passing[edges.waiters[reads[edges.waiters]]] = False
        self.passed = np.flatnonzero((passing & needed)[edges.makers])
        ops = edges.makers[self.passed]
        places = np.where(edges.are("IdentityN")[ops], self.passed - edges.first[ops], 0)
        plain = (reads | alone)[ops]
        own = (edges.begin[ops] + places)[~plain]
        sizes = self.bytes[edges.taken[own]]
        for at in np.flatnonzero(edges.bytes[edges.taken[own]] < 0):
            sizes[at] = max(sizes[at], edges.bytes_taken(own[at]))
        plain[~plain] = self.bytes[self.passed[~plain]] == sizes
        before = np.concatenate(([0], np.cumsum(there)))
        takes = before[edges.begin[ops + 1]] > before[edges.begin[ops]]
        self.passed_from = np.where(takes, before[edges.begin[ops]] + places, -1)[plain]
        self.passed = self.passed[plain]

    def _order(self, needed: Numbers) -> None:
        """Let each op run after those that became ready before it."""
        edges, count = self.edges, len(self.edges.ops)
        waits = needed[edges.waiters]
        sources = np.concatenate((edges.makers[self.taken], edges.awaited[waits]))
        users = np.concatenate((self.takers, edges.waiters[waits]))
        links, missing = Links.of(sources, users, count), np.bincount(users, minlength=count)
        ready, last = np.flatnonzero(needed & (missing == 0)), np.zeros(count, np.int32)
        ran = [ready]
        while len(ready):
            users = links.from_(ready)
            np.subtract.at(missing, users, 1)
            last[users] = np.arange(len(users))
            ready = users[(missing[users] == 0) & (last[users] == np.arange(len(users)))]
            ran.append(ready)
        order = np.concatenate(ran)
        self.moments, self.following = (np.full(count, _NEVER, np.int32) for _ in range(2))
        self.moments[order] = np.arange(1, len(order) + 1)
        order = order[np.argsort(edges.homes[order], kind="stable")]
        next_there = edges.homes[order[:-1]] == edges.homes[order[1:]]
        self.following[order[:-1][next_there]] = self.moments[order[1:][next_there]]

    def peaks(self) -> Iterator[tuple[int, StepMemory]]:
        """Yield the peaks, each with the number of its device, of all devices that hold something.

        Nothing leads from the memory of one device to that of another. Each is looked at alone, because what
        one holds fits into the caches of a processor, and what all hold does not.
        """
        homes, makers = self.edges.homes, self.edges.makers
        parts = [_by_number(homes[each]) for each in (makers, self.takers, makers[self.passed])]
        for device in sorted({*parts[0], *parts[1]}):
            own = [each.get(device, _NOTHING) for each in parts]
            found = self._peak_of(*own)
            if found is not None:
                yield device, found

    def _peak_of(self, made: Numbers, uses: Numbers, passed: Numbers) -> StepMemory | None:
        """Return the peak of a device, or None if it holds nothing.

        What it holds has numbers: first what is made there, then what is sent to it.

        Args:
            made: The tensors that are made there, in order.
            uses: Where in `taken` is what the ops there take, in order.
            passed: Where in `passed` is what they pass on.
        """
        taken, takers = self.taken[uses], self.takers[uses]
        away = self.edges.homes[self.edges.makers[taken]] != self.edges.homes[takers]
        sent, held = distinct(taken[away]), np.searchsorted(made, taken)  # `held` is what each op takes
        held[away] = len(made) + np.searchsorted(sent, taken[away])
        tensors = np.concatenate((made, sent))
        sizes, begin = self.bytes[tensors], self.moments[self.edges.makers[tensors]]
        of = np.arange(len(tensors), dtype=np.int32)
        source = self.passed_from[passed]
        before = np.append(held, -1)[np.where(source < 0, -1, np.searchsorted(uses, source))]
        of[np.searchsorted(made, self.passed[passed])] = before
        of[(sizes == 0) | (begin >= _NEVER)] = -1
        of = _roots(of)  # what has its memory: itself, or what it is passed on from; -1 if it takes none
        there = np.flatnonzero(of >= 0)
        if not len(there):
            return None
        following = self.following[takers]
        last = _Ends.of(held, following, len(of))
        left = np.maximum(begin, last.last)
        shares = _Ends.of(of[there], left[there], len(of))
        # an op writes over the first input of its size that nothing else uses, then or later
        over = np.flatnonzero(self.writes_over[takers])
        what, moment = held[over], self.moments[takers[over]]
        result = np.searchsorted(made, self.edges.first[takers[over]])
        fits = (of[what] >= 0) & (sizes[of[what]] == sizes[result]) & (moment < _NEVER)
        over = over[
            fits & last.only(what, following[over], moment) & shares.only(of[what], left[what], moment)
        ]
        over = over[np.unique(takers[over], return_index=True)[1]]
        ends = shares.last * _PHASES + _LEFT
        ends[of[held[over]]] = self.moments[takers[over]] * _PHASES + _WRITTEN_OVER
        blocks = there[of[there] == there]
        return self._peak(tensors[blocks], sizes[blocks], begin[blocks], ends[blocks])

    def _peak(self, tensors: Numbers, sizes: Numbers, begin: Numbers, ends: Numbers) -> StepMemory:
        """Return the peak of a device, of which what ends at its moment is still a part."""
        moments = np.concatenate((begin * _PHASES + _MADE, ends))
        order = np.argsort(moments, kind="stable")
        now = np.cumsum(np.concatenate((sizes, -sizes))[order])
        most = np.argmax(now)
        moment = moments[order[most]] // _PHASES
        there = np.flatnonzero((begin <= moment) & (ends >= moment * _PHASES + _LEFT))
        own = sizes[there]
        if self.named is not None and len(own) > self.named:  # no more are named than may be the largest
            large = own >= np.partition(own, -self.named)[-self.named]
            own, there = own[large], there[large]
        found = zip([self.edges.made[each] for each in tensors[there]], own.tolist(), strict=True)
        ordered = sorted(found, key=lambda each: (-each[1], each[0].op, each[0].output))[: self.named]
        return StepMemory(int(now[most]), tuple(MapTensor(tensor.name, size) for tensor, size in ordered))


@frozen
class _Ends:
    """The ends of several uses of each of some things."""

    last: Numbers  # the moment of the last end of each thing
    alone: Numbers  # whether only one use ends then
    before: Numbers  # the moment of the last end before that

    @classmethod
    def of(cls, things: Numbers, moments: Numbers, count: int) -> _Ends:
        last, before = np.zeros(count, np.int32), np.zeros(count, np.int32)
        np.maximum.at(last, things, moments)
        latest = moments == last[things]
        np.maximum.at(before, things[~latest], moments[~latest])
        return cls(last, np.bincount(things[latest], minlength=count) == 1, before)

    def only(self, things: Numbers, end: Numbers, moment: Numbers) -> Numbers:
        """Whether the use of a thing that ends at `end` is its only one at a moment before that."""
        found: Numbers = (end == self.last[things]) & self.alone[things] & (self.before[things] < moment)
        return found


_NOTHING = np.empty(0, np.int32)


def _by_number(numbers: Numbers) -> dict[int, Numbers]:
    """Return where each number stands, in order."""
    small = numbers.astype(np.min_scalar_type(numbers.max(initial=0)))  # which are sorted in fewer passes
    order = np.argsort(small, kind="stable")
    distinct_numbers, starts = np.unique(small[order], return_index=True)
    parts = np.split(order, starts[1:])  # an empty one, if there are no numbers
    return dict(zip(distinct_numbers.tolist(), parts, strict=False))


def _roots(links: Numbers) -> Numbers:
    """Follow links from thing to thing until they end at one that leads to itself, or at -1."""
    while True:
        further = np.where(links >= 0, links[links], -1)
        if np.array_equal(further, links):
            return links
        links = further
