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

from array import array
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from compiler.mapping.records import MapTensor
from compiler.process import collector_paused
from compiler.step.read.rows import RowCounts
from compiler.step.read.transfers import LARGEST
from compiler.step.record import Op, Tensor
from compiler.step.step import Step
from compiler.time.costs import PLAIN
from compiler.time.work import PASSED_ON

_OVER = PLAIN | {"BiasAdd", "SelectV2"}
"""The types of ops that write over an input that nothing else uses. Each makes one tensor."""

_NEVER = 1 << 60
"""The moment of what does not happen in a step."""

_PHASES = 3
_WRITTEN_OVER, _MADE, _LEFT = range(_PHASES)
"""What happens to memory at a moment, in this order."""


@frozen
class StepMemory:
    """The peak of the tensors of a step on a device.

    Attributes:
        bytes: The bytes of the tensors alive at the peak.
        largest: The largest of these tensors.
        alive: All of them, the largest first.
    """

    bytes: int
    largest: tuple[MapTensor, ...]
    alive: tuple[MapTensor, ...] = field(default=(), repr=False)


def forecast_memory(step: Step) -> dict[str, StepMemory]:
    """Return the peak of a step on each device, without variables, by the device's name in specs.

    Args:
        step: The step. Tensors whose sizes are not known count as nothing.
    """
    with collector_paused():
        found = dict(_Run(step).peaks())
        nothing = StepMemory(0, ())
        return {each.ref: found.get(at, nothing) for at, each in enumerate(step.plan.topology.devices)}


Numbers: TypeAlias = NDArray[Any]


def _numbers() -> array[int]:
    """Return an empty list of numbers, which take a fifth of the memory of those in a `list`."""
    return array("q")


@define
class _Run:
    """The ops of a step, which run one after the other. Each op that runs is a moment.

    A tensor is held on the device on which it is made, and on each that it is sent to. What is held where a
    tensor is made has the number of the tensor; what is sent comes after all of these.
    """

    step: Step
    rows: RowCounts = field(init=False)
    ops: list[Op] = field(init=False)
    users: list[list[int]] = field(init=False)  # the ops that wait for each, as often as they do
    missing: list[int] = field(factory=list)  # for how many of them each op waits
    homes: Numbers = field(init=False)  # the number of the device of each op
    first: list[int] = field(factory=list)  # the number of the first tensor that each op makes
    makers: array[int] = field(factory=_numbers)  # the op that makes each tensor
    made: list[Tensor] = field(factory=list)
    bytes: list[int] = field(factory=list)  # of each tensor
    taken: array[int] = field(factory=_numbers)  # the tensors that ops take, but for what a loop hands back
    takers: array[int] = field(factory=_numbers)  # the op of each of these
    passed: dict[int, int] = field(factory=dict)  # by tensor that is passed on, where it is in `taken`, or -1
    moments: Numbers = field(init=False)  # of each op
    following: Numbers = field(init=False)  # the moment of the next op on the device of each

    def __attrs_post_init__(self) -> None:
        step = self.step
        needed, self.rows = {op.name for op in step.run}, RowCounts(step.ops)
        self.ops = [op for name, op in step.ops.items() if name in needed]
        self.users = [[] for _ in self.ops]
        self.homes = np.array([op.placed.device.ordinal for op in self.ops], np.int64)
        for at, op in enumerate(self.ops):
            self.first.append(len(self.made))
            for each in op.outputs:
                self.made.append(each)
                self.makers.append(at)
        self.bytes = list(map(self._size, self.made))
        self._link({op.name: at for at, op in enumerate(self.ops)})
        self._order()

    def _size(self, tensor: Tensor) -> int:
        found = tensor.bytes
        return self.rows.shaped(tensor).bytes or 0 if found is None else found

    def _link(self, numbers: dict[str, int]) -> None:
        """Find out what each op takes, waits for and passes on."""
        users, first, taken, takers = self.users, self.first, self.taken, self.takers
        for at, op in enumerate(self.ops):
            begin, kind, waits = len(taken), op.type, op.waits
            waiting, merges = len(op.inputs) + len(waits), kind == "Merge"
            for tensor in op.inputs:
                source = numbers[tensor.op]
                if merges and self.ops[source].type == "NextIteration":
                    waiting -= 1
                    continue
                taken.append(first[source] + tensor.output)
                takers.append(at)
                users[source].append(at)
            for name in waits:
                users[numbers[name]].append(at)
            self.missing.append(waiting)
            if kind in PASSED_ON and not (kind == "ReadVariableOp" and waits):
                self._pass_on(at, op, begin)

    def _pass_on(self, at: int, op: Op, begin: int) -> None:
        """Note which results of an op are what it takes, and not, for example, its shape."""
        for tensor in op.outputs:
            number, place = self.first[at] + tensor.output, tensor.output if op.type == "IdentityN" else 0
            same = op.type == "ReadVariableOp" or not op.inputs
            if same or self.bytes[number] == self._size(op.inputs[place]):
                self.passed[number] = begin + place if len(self.taken) > begin else -1

    def _order(self) -> None:
        """Let each op run after those that became ready before it."""
        missing, users = self.missing, self.users
        order = [at for at, count in enumerate(missing) if not count]
        for at in order:  # which grows meanwhile
            for user in users[at]:
                missing[user] -= 1
                if not missing[user]:
                    order.append(user)
        self.moments, self.following = (np.full(len(self.ops), each) for each in (_NEVER, _NEVER))
        self.moments[order] = np.arange(1, len(order) + 1)
        ran = np.array(order, np.int64)[np.argsort(self.homes[order], kind="stable")]
        next_there = self.homes[ran[:-1]] == self.homes[ran[1:]]
        self.following[ran[:-1][next_there]] = self.moments[ran[1:][next_there]]

    def peaks(self) -> Iterator[tuple[int, StepMemory]]:
        """Yield the peaks, each with the number of its device, of all devices that hold something."""
        taken, takers, makers = (np.array(each, np.int64) for each in (self.taken, self.takers, self.makers))
        homes, count = self.homes, len(self.step.plan.topology.devices)
        away = homes[takers] != homes[makers[taken]]
        sent, places = np.unique((taken * count + homes[takers])[away], return_inverse=True)
        held = taken.copy()  # what each op takes, as it is held on its device
        held[away] = len(makers) + places
        tensors = np.concatenate((np.arange(len(makers)), sent // count))
        devices = np.concatenate((homes[makers], sent % count))
        sizes, begin = np.array(self.bytes, np.int64)[tensors], self.moments[makers[tensors]]
        of = self._memory(held, (sizes > 0) & (begin < _NEVER))
        uses = _Ends.of(held, self.following[takers], len(of))
        left, there = np.maximum(begin, uses.last), np.flatnonzero(of >= 0)
        shares = _Ends.of(of[there], left[there], len(of))
        # an op writes over the first input of its size that nothing else uses, then or later
        over = np.flatnonzero(np.array([op.type in _OVER for op in self.ops], bool)[takers])
        what, moment, result = held[over], self.moments[takers[over]], np.array(self.first)[takers[over]]
        fits = (of[what] >= 0) & (sizes[of[what]] == sizes[result]) & (moment < _NEVER)
        over = over[
            fits
            & uses.only(what, self.following[takers[over]], moment)
            & shares.only(of[what], left[what], moment)
        ]
        over = over[np.unique(takers[over], return_index=True)[1]]
        ends = shares.last * _PHASES + _LEFT
        ends[of[held[over]]] = self.moments[takers[over]] * _PHASES + _WRITTEN_OVER
        blocks = there[of[there] == there]
        for device in np.unique(devices[blocks]):
            own = blocks[devices[blocks] == device]
            yield int(device), self._peak(tensors[own], sizes[own], begin[own], ends[own])

    def _memory(self, held: Numbers, there: Numbers) -> Numbers:
        """Return of what is held the number of what has its memory: itself, or what it is passed on from.

        Args:
            held: What ops take.
            there: Whether something takes memory.

        Returns:
            -1 for what takes no memory.
        """
        found = np.arange(len(there))
        for number, place in self.passed.items():
            found[number] = held[place] if place >= 0 else -1
        found[~there] = -1
        while True:
            further = np.where(found >= 0, found[found], -1)
            if np.array_equal(further, found):
                return found
            found = further

    def _peak(self, tensors: Numbers, sizes: Numbers, begin: Numbers, ends: Numbers) -> StepMemory:
        """Return the peak of a device, of which what ends at its moment is still a part."""
        moments = np.concatenate((begin * _PHASES + _MADE, ends))
        order = np.argsort(moments, kind="stable")
        now = np.cumsum(np.concatenate((sizes, -sizes))[order])
        most = np.argmax(now)
        moment = moments[order[most]] // _PHASES
        there = np.flatnonzero((begin <= moment) & (ends >= moment * _PHASES + _LEFT))
        found = zip([self.made[each] for each in tensors[there]], sizes[there].tolist(), strict=True)
        ordered = sorted(found, key=lambda each: (-each[1], each[0].op, each[0].output))
        alive = tuple(MapTensor(tensor.name, size) for tensor, size in ordered)
        return StepMemory(int(now[most]), alive[:LARGEST], alive)


@frozen
class _Ends:
    """The ends of several uses of each of some things.

    Attributes:
        last: The moment of the last end of each thing.
        alone: Whether only one use ends then.
        before: The moment of the last end before that.
    """

    last: Numbers
    alone: Numbers
    before: Numbers

    @classmethod
    def of(cls, things: Numbers, moments: Numbers, count: int) -> _Ends:
        last, before = np.zeros(count, np.int64), np.zeros(count, np.int64)
        np.maximum.at(last, things, moments)
        latest = moments == last[things]
        np.maximum.at(before, things[~latest], moments[~latest])
        return cls(last, np.bincount(things[latest], minlength=count) == 1, before)

    def only(self, things: Numbers, end: Numbers, moment: Numbers) -> Numbers:
        """Whether the use of a thing that ends at `end` is its only one at a moment before that."""
        found: Numbers = (end == self.last[things]) & self.alone[things] & (self.before[things] < moment)
        return found
