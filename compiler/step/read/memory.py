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

from collections import Counter, deque
from collections.abc import Sequence
from itertools import accumulate, chain

from attrs import define, field, frozen

from compiler.mapping.records import MapTensor
from compiler.process import collector_paused
from compiler.step.read.rows import RowCounts
from compiler.step.read.transfers import LARGEST
from compiler.step.record import Op, Shape, Tensor
from compiler.step.step import Step
from compiler.time.costs import PLAIN
from compiler.time.work import PASSED_ON

_OVER = PLAIN | {"BiasAdd", "SelectV2"}
"""The types of ops that write over an input that nothing else uses."""


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
        devices = [_Device() for _ in step.plan.topology.devices]
        _Run(step, devices).run()
        return {each.ref: held.peak() for each, held in zip(step.plan.topology.devices, devices, strict=True)}


@define
class _Block:
    """Memory of a device that holds a tensor, and others that are the same, until the last use of any."""

    tensor: Tensor
    bytes: int
    begin: int
    shares: int = 1
    end: int | None = None

    def is_there(self, moment: int) -> bool:
        return self.begin <= moment and (self.end is None or moment <= self.end)


@define
class _Device:
    """The memory of a device. Each op that runs is a moment."""

    now: int = 0
    most: int = 0
    moment: int = -1  # at which it holds the most
    blocks: list[_Block] = field(factory=list)

    def take(self, tensor: Tensor, size: int, moment: int) -> _Block:
        block = _Block(tensor, size, moment)
        self.blocks.append(block)
        self.now += size
        if self.now > self.most:
            self.most, self.moment = self.now, moment
        return block

    def leave(self, block: _Block, moment: int) -> None:
        block.shares -= 1
        if not block.shares:
            block.end = moment
            self.now -= block.bytes

    def peak(self) -> StepMemory:
        """Return the peak, of which what ends at its moment is still a part."""
        there = (each for each in self.blocks if each.is_there(self.moment))
        ordered = sorted(there, key=lambda each: (-each.bytes, each.tensor.op, each.tensor.output))
        alive = tuple(MapTensor(each.tensor.name, each.bytes) for each in ordered)
        return StepMemory(self.most, alive[:LARGEST], alive)


@define
class _Sizes:
    """The bytes of tensors, which few types and shapes tell of very many."""

    rows: RowCounts
    known: dict[tuple[str, Shape | None], int | None] = field(factory=dict)

    def of(self, tensor: Tensor) -> int:
        key = tensor.dtype, tensor.shape
        if key not in self.known:
            self.known[key] = tensor.bytes
        found = self.known[key]
        return self.rows.shaped(tensor).bytes or 0 if found is None else found


@define
class _Run:
    """The ops of a step, which run one after the other.

    A tensor has the number of the first result of its op, plus its own among these. On a device, that is
    multiplied by the number of devices, and the number of the device is added.
    """

    step: Step
    devices: Sequence[_Device]
    ops: list[Op] = field(init=False)
    homes: list[int] = field(init=False)  # the number of the device of each op
    made: list[int] = field(init=False)  # the number of the first result of each op, on its device
    takes: list[list[int]] = field(factory=list)  # what each op takes, but for what a loop hands back
    users: list[list[int]] = field(init=False)  # the ops that wait for each, as often as they do
    uses: dict[int, int] = field(factory=dict)  # how often a tensor is still taken on a device
    sent: dict[int, list[int]] = field(factory=dict)  # the same tensor on other devices
    held: dict[int, _Block] = field(factory=dict)
    sizes: _Sizes = field(init=False)

    def __attrs_post_init__(self) -> None:
        step, count = self.step, len(self.devices)
        needed = {op.name for op in step.run}
        self.ops = [op for name, op in step.sized.items() if name in needed]
        numbers = {each: number for number, each in enumerate(step.plan.topology.devices)}
        self.homes = [numbers[op.placed.device] for op in self.ops]
        results = accumulate((len(op.outputs) for op in self.ops), initial=0)
        self.made = [first * count + home for first, home in zip(results, self.homes, strict=False)]
        self.users = [[] for _ in self.ops]
        self.sizes = _Sizes(RowCounts(step.sized))
        self._link({op.name: at for at, op in enumerate(self.ops)})

    def _link(self, numbers: dict[str, int]) -> None:
        """Find out what each op takes and waits for."""
        count = len(self.devices)
        for at, op in enumerate(self.ops):
            taken, home = [], self.homes[at]
            for tensor in op.inputs:
                source = numbers[tensor.op]
                if op.type == "Merge" and self.ops[source].type == "NextIteration":
                    continue
                there = self.made[source] + tensor.output * count
                here = there - self.homes[source] + home
                if here != there and here not in self.uses:
                    self.sent.setdefault(there, []).append(here)
                self.uses[here] = self.uses.get(here, 0) + 1
                taken.append(here)
                self.users[source].append(at)
            for name in op.waits:
                self.users[numbers[name]].append(at)
            self.takes.append(taken)

    def run(self) -> None:
        """Run each op after those that became ready before it."""
        missing = Counter(chain.from_iterable(self.users))
        ready = deque(at for at in range(len(self.ops)) if at not in missing)
        moment, taken = 0, [list[int]() for _ in self.devices]  # by the op before on each device
        uses = self.uses
        while ready:
            at, moment = ready.popleft(), moment + 1
            self._make(at, moment)
            for number in self._results(at):
                if number not in uses:
                    self._leave(number, moment)
            home = self.homes[at]
            taken[home], given_back = self.takes[at], taken[home]
            for number in given_back:
                uses[number] -= 1
                if not uses[number]:
                    self._leave(number, moment)
            for user in self.users[at]:
                missing[user] -= 1
                if not missing[user]:
                    ready.append(user)

    def _results(self, at: int) -> range:
        """Return the numbers of what an op makes."""
        first, count = self.made[at], len(self.devices)
        return range(first, first + len(self.ops[at].outputs) * count, count)

    def _make(self, at: int, moment: int) -> None:
        """Take memory for what an op makes, where it is made and where it is sent to."""
        op, count, made = self.ops[at], len(self.devices), self.made[at]
        there = op.type in PASSED_ON and not (op.type == "ReadVariableOp" and op.waits)
        for tensor in op.outputs:
            size, number = self.sizes.of(tensor), made + tensor.output * count
            if not size:
                continue
            block = None
            if not there or (op.inputs and self._is_other(op, tensor, size)):
                if op.type in _OVER:
                    self._write_over(self.takes[at], size, moment)
                block = self.devices[self.homes[at]].take(tensor, size, moment)
            elif self.takes[at]:
                block = self.held.get(self.takes[at][tensor.output if op.type == "IdentityN" else 0])
                if block is not None:
                    block.shares += 1
            if block is not None:
                self.held[number] = block
            for copy in self.sent.get(number, ()):
                self.held[copy] = self.devices[copy % count].take(tensor, size, moment)

    def _is_other(self, op: Op, tensor: Tensor, size: int) -> bool:
        """Whether the result of an op that passes something on is not what it takes, such as its shape."""
        return op.type != "ReadVariableOp" and size != self.sizes.of(
            op.inputs[tensor.output if op.type == "IdentityN" else 0]
        )

    def _write_over(self, inputs: Sequence[int], size: int, moment: int) -> None:
        """Give back the memory of the first input that nothing else uses, before an op takes it again."""
        for number in inputs:
            block = self.held.get(number)
            if block is not None and block.shares == 1 and self.uses[number] == 1 and block.bytes == size:
                self._leave(number, moment - 1)
                return

    def _leave(self, number: int, moment: int) -> None:
        block = self.held.pop(number, None)
        if block is not None:
            self.devices[number % len(self.devices)].leave(block, moment)
