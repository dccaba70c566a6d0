"""The ops of a step and the tensors between them as numbers, for all who follow what takes what.

A step of many clones has millions of tensors. What takes them is a tenth as large in arrays as in records,
and is followed in a tenth of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from heapq import heappop, heappush
from itertools import chain, count
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from compiler.figures import gathered
from compiler.step.record import Op, Tensor, bytes_of

Numbers: TypeAlias = NDArray[Any]


@define(eq=False)
class Edges:
    """The ops of a step by their numbers, which are in its order, and the tensors that they make and take.

    Attributes:
        ops: The ops.
        numbers: The number of each op, by its name.
        homes: The number of the device of each op.
        types: A number for the type of each op; `are` knows it.
        made: The tensors, in the order of the ops that make them.
        first: The number of the first tensor that each op makes, and at the end that of all tensors.
        makers: The op that makes each tensor.
        bytes: The bytes of each tensor; -1 if they are not known.
        begin: The number of the first input of each op, and at the end that of all inputs.
        taken: The tensor that is each input.
        takers: The op of each input.
        waiters: The ops that wait for others besides, as often as they do.
        awaited: The ops for which these wait.
    """

    ops: Sequence[Op] = field(repr=False)
    numbers: Mapping[str, int] = field(init=False, repr=False)
    homes: Numbers = field(init=False, repr=False)
    types: Numbers = field(init=False, repr=False)
    made: Sequence[Tensor] = field(init=False, repr=False)
    first: Numbers = field(init=False, repr=False)
    makers: Numbers = field(init=False, repr=False)
    bytes: Numbers = field(init=False, repr=False)
    begin: Numbers = field(init=False, repr=False)
    taken: Numbers = field(init=False, repr=False)
    takers: Numbers = field(init=False, repr=False)
    waiters: Numbers = field(init=False, repr=False)
    awaited: Numbers = field(init=False, repr=False)
    _type_numbers: dict[str, int] = field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        ops, types = self.ops, self._type_numbers
        numbers = self.numbers = dict(zip(map(_NAME, ops), count(), strict=False))
        self.homes = _array(map(_ORDINAL, ops))
        kinds = [*map(_TYPE, ops)]
        types |= zip(dict.fromkeys(kinds), count(), strict=False)
        self.types = _array(map(types.__getitem__, kinds))
        self.made = [*chain.from_iterable(map(_OUTPUTS, ops))]
        sizes = map(bytes_of, map(_DTYPE, self.made), map(_SHAPE, self.made))
        self.bytes = _array((-1 if each is None else each for each in sizes), np.int64)
        self.first, self.makers = _grouped(map(_OUTPUTS, ops))
        self.begin, self.takers = _grouped(map(_INPUTS, ops))
        taken = [*chain.from_iterable(map(_INPUTS, ops))]
        makers = _array(map(numbers.__getitem__, map(_MAKER, taken)))
        self.taken = self.first[makers] + _array(map(_OUTPUT, taken))
        waits = [(at, numbers[each]) for at, op in enumerate(ops) if op.waits for each in op.waits]
        self.waiters, self.awaited = np.array(waits, np.int32).reshape(-1, 2).T

    def arranged(self, order: Numbers) -> Edges:
        """Return the same for the ops in another order.

        Args:
            order: Their numbers in that order.
        """
        found = copy(self)
        found.ops = [self.ops[at] for at in order.tolist()]
        found.numbers = dict(zip(map(_NAME, found.ops), count(), strict=False))
        found.homes, found.types = self.homes[order], self.types[order]
        found.made = [*chain.from_iterable(map(_OUTPUTS, found.ops))]
        found.first, found.makers, tensors = _rearranged(self.first, order)
        found.begin, found.takers, inputs = _rearranged(self.begin, order)
        found.bytes = self.bytes[tensors]
        found.taken = _places(tensors)[self.taken[inputs]]
        ranks = _places(order)
        waiters, awaited = ranks[self.waiters], ranks[self.awaited]
        by_waiter = np.argsort(waiters, kind="stable")
        found.waiters, found.awaited = waiters[by_waiter], awaited[by_waiter]
        return found

    def are(self, *types: str) -> Numbers:
        """Return whether each op is of one of some types."""
        return np.isin(self.types, [self._type_numbers.get(each, -1) for each in types])

    def chosen(self, ops: Numbers) -> list[Op]:
        """Return some of the ops, in their order."""
        return [self.ops[at] for at in np.flatnonzero(ops).tolist()]

    def bytes_taken(self, number: int) -> int:
        """Return the bytes of an input, or -1: what takes a tensor may know more of its shape."""
        op = self.takers[number]
        found = self.ops[op].inputs[number - self.begin[op]].bytes
        return -1 if found is None else found

    def needed_for(self, ends: Iterable[str], left_out: Collection[str] = ()) -> Numbers:
        """Return whether each op runs if some are run.

        Args:
            ends: The names of the ops that are run.
            left_out: The names of ops that are not run all the same, nor what only they need.
        """
        numbers, found = self.numbers, np.zeros(len(self.ops), bool)
        users = np.concatenate((self.takers, self.waiters))
        before = Links.of(users, np.concatenate((self.makers[self.taken], self.awaited)), len(self.ops))
        out = [numbers[each] for each in left_out if each in numbers]
        found[out] = True
        reached = np.array([numbers[each] for each in ends], np.int64)
        while len(reached):
            reached = distinct(reached[~found[reached]])
            found[reached] = True
            reached = before.from_(reached)
        found[out] = False
        return found


def in_order(written: Sequence[Op]) -> Edges:
    """Return ops as they were written, but each after all that it takes and waits for.

    Args:
        written: The ops.
    """
    edges = Edges(written)
    late = _late(edges)
    return edges.arranged(_order(edges, late)) if late else edges


def _late(edges: Edges) -> list[int]:
    """Return the ops that may have to come later, because they need what was written after them.

    Those that only need something of which that is true are among them.
    """
    after = np.concatenate((edges.takers, edges.waiters))
    before = np.concatenate((edges.makers[edges.taken], edges.awaited))
    late, new = np.zeros(len(edges.ops), bool), after[before > after]
    while len(new):
        late[new] = True
        new = after[late[before] & ~late[after]]
    found: list[int] = np.flatnonzero(late).tolist()
    return found


def _order(edges: Edges, late: Sequence[int]) -> Numbers:
    """Return the ops in an order in which each comes after all that it needs, of which some may be late.

    What has waited comes right after the last op for which it did.
    """
    awaits = gathered(zip(edges.waiters.tolist(), edges.awaited.tolist(), strict=True))
    users: dict[int, list[int]] = {}  # of what is not there yet, those that were written before it
    missing: dict[int, int] = {}  # what each of those lacks that are not there at their own place
    following: dict[int, list[int]] = {}  # what comes right after an op

    def came(first: int) -> list[int]:
        """Return the ops that may come after one, because it was the last that they lacked."""
        found, ready = list[int](), [first]
        while ready:
            number = heappop(ready)
            found.append(number)
            for each in users.pop(number, ()):
                missing[each] -= 1
                if not missing[each]:
                    del missing[each]
                    heappush(ready, each)
        return found[1:]

    candidates, ahead = frozenset(late), [*late]  # the ops to look at, in their order
    while ahead:
        at = heappop(ahead)
        needed = _needed(edges, at, awaits.get(at, ())) if at in candidates else ()
        lacking = {each for each in needed if each > at or each in missing}
        if lacking:
            missing[at] = len(lacking)
            for each in lacking:
                if each not in users and each not in candidates:
                    heappush(ahead, each)
                users.setdefault(each, []).append(at)
        elif at in users:
            following[at] = came(at)
    moved = [*chain.from_iterable(following.values())]
    kept = np.delete(np.arange(len(edges.ops), dtype=np.int32), moved)
    before = np.repeat([*following], [*map(len, following.values())])
    order: Numbers = np.insert(kept, np.searchsorted(kept, before, side="right"), moved)
    return order


def _needed(edges: Edges, number: int, awaited: Iterable[int]) -> set[int]:
    """Return what an op takes or waits for."""
    taken = edges.taken[edges.begin[number] : edges.begin[number + 1]]
    found = {*edges.makers[taken].tolist(), *awaited}
    if edges.ops[number].type == "Merge":  # which begins before the first iteration has ended
        return {each for each in found if edges.ops[each].type != "NextIteration"}
    return found


@define(eq=False)
class Links:
    """Things to which others lead, such as the users of ops: those of a thing together, in their order."""

    _begin: Numbers
    _ends: Numbers

    @classmethod
    def of(cls, sources: Numbers, targets: Numbers, count: int) -> Links:
        """Return links between some of a number of things."""
        keys = sources.astype(np.int64)
        keys <<= _HALF
        keys |= targets
        keys.sort()
        return cls(np.searchsorted(keys, np.arange(count + 1) << _HALF), keys.astype(np.int32))

    def from_(self, sources: Numbers) -> Numbers:
        """Return that to which some things lead, one after the other."""
        begin = self._begin[sources]
        counts = self._begin[sources + 1] - begin
        ends = np.cumsum(counts)
        found: Numbers = self._ends[
            np.repeat(begin - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)
        ]
        return found


_NAME, _TYPE, _INPUTS, _OUTPUTS, _ORDINAL = map(
    attrgetter, ("name", "type", "inputs", "outputs", "placed.device.ordinal")
)
_MAKER, _OUTPUT, _DTYPE, _SHAPE = map(attrgetter, ("op", "output", "dtype", "shape"))
"""What ops and tensors have, for `map`, which needs half the time of a loop for millions of them."""

_HALF = 32
"""The bits of the second of two numbers that are sorted as one."""


def distinct(numbers: Numbers) -> Numbers:
    """Return numbers in order, each once; NumPy's own function takes ten times as long for millions."""
    ordered = np.sort(numbers)
    found: Numbers = ordered[np.diff(ordered, prepend=-1) != 0]
    return found


def _array(numbers: Iterable[int], dtype: Any = np.int32) -> Numbers:
    return np.fromiter(numbers, dtype)


def _rearranged(begin: Numbers, order: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Put the things of each op into another order of ops.

    Returns:
        Where those of each op begin, the op of each thing, and the number that it had before.
    """
    now, owners = _counted(np.diff(begin)[order])
    before = (begin[:-1][order] - now[:-1])[owners] + np.arange(now[-1], dtype=np.int32)
    return now, owners, before


def _places(order: Numbers) -> Numbers:
    """Return where each number is in an order."""
    found = np.empty_like(order)
    found[order] = np.arange(len(order), dtype=order.dtype)
    return found


def _grouped(things: Iterable[Sequence[Any]]) -> tuple[Numbers, Numbers]:
    """Return where the things of each op begin if they come one after the other, and the op of each thing."""
    return _counted(_array(map(len, things)))


def _counted(counts: Numbers) -> tuple[Numbers, Numbers]:
    """Return the same, given how many things each op has."""
    begin = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=begin[1:])
    return begin, np.repeat(np.arange(len(counts), dtype=np.int32), counts)
