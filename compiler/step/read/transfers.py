"""The tensors that a step sends between devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from typing import TypeAlias

from attrs import define, field

from compiler.mapping.records import MapTensor, MapTransfer
from compiler.plan import WorkerPlan
from compiler.step.record import Op, Tensor
from compiler.step.step import Step
from compiler.topology import Device, Host

Result: TypeAlias = tuple[str, int]
"""The name of an op, and the number of one of its results."""

LARGEST = 5
COPIED_ELEMENTS = 16  # TensorFlow copies constants of up to so many elements instead of sending them


def list_transfers(
    step: Step,
    *,
    of_worker: Host | None = None,
    named: int | None = LARGEST,
    sizes: Mapping[str, int] | None = None,
) -> tuple[MapTransfer, ...]:
    """Return the number of tensors and bytes that one step sends, for each pair of devices.

    A tensor is sent to a device once, however many ops use it there. Control inputs send no bytes and are
    left out. A handle of a resource never leaves its device.

    Args:
        step: The step.
        of_worker: The task of another worker, if each has a graph of its own and its step is meant, which is
            without what only the chief runs. None means the step of the graph itself.
        named: How many of the largest tensors are named; None for all.
        sizes: The bytes of tensors whose sizes depend on the examples, by name, if they are known.
    """
    sent: dict[tuple[int, int], tuple[Device, Device, dict[Result, Tensor]]] = {}
    for tensor, source, target in crossings(step, of_worker):
        pair = (source.ordinal, target.ordinal)
        link = sent.get(pair) or sent.setdefault(pair, (source, target, {}))
        link[2][tensor.op, tensor.output] = tensor
    return tuple(_transfer(step, *sent[pair], sizes or {}, named) for pair in sorted(sent))


def crossings(step: Step, of_worker: Host | None = None) -> Iterator[tuple[Tensor, Device, Device]]:
    """Yield each tensor that a step sends, with the device that it leaves and the device that receives it."""
    return _Step(step, of_worker).crossings()


@define
class _Step:
    """The ops of a step, and their devices."""

    step: Step
    of_worker: Host | None
    ops: list[Op] = field(init=False)
    twins: Mapping[Device, Device] = field(init=False)
    waiting: set[str] = field(factory=set)  # the ops for which others only wait

    def __attrs_post_init__(self) -> None:
        plan, host = self.step.plan, self.of_worker
        self.twins = plan.devices_for(host) if isinstance(plan, WorkerPlan) and host is not None else {}
        self.ops = self.step.run if self.of_worker is None else self.step.run_by_all

    def crossings(self) -> Iterator[tuple[Tensor, Device, Device]]:
        ops, twins = self.step.ops, self.twins
        constants: dict[str, list[tuple[Tensor, Device]]] = {}  # small ones, and where they are used
        for op in self.ops:
            here = self._device(op) if twins else op.placed.device
            if op.waits:
                self.waiting.update(op.waits)
            for tensor in op.inputs:
                source = ops[tensor.op]
                if source.type == "Const" and (source.outputs[0].elements or 0) <= COPIED_ELEMENTS:
                    constants.setdefault(tensor.op, []).append((tensor, here))
                    continue
                there = self._device(source) if twins else source.placed.device
                if there is not here and there.ordinal != here.ordinal and tensor.dtype != "resource":
                    yield tensor, there, here
        for name, users in constants.items():
            home = self._device(ops[name])
            copied = self._is_copied(name, home, [here for _, here in users])
            for tensor, here in users:
                there = self._copy_for(here) if copied else home
                if there != here:
                    yield tensor, there, here

    def _device(self, op: Op) -> Device:
        device = op.placed.device
        return self.twins.get(device, device) if op.own else device

    def _is_copied(self, name: str, home: Device, users: Sequence[Device]) -> bool:
        """Whether TensorFlow copies a small constant to the devices that use it, and sends nothing."""
        if len(users) == 1 or name in self.waiting or self._copy_for(home) != home:
            return False
        return len({self._copy_for(each) for each in users}) > 1

    def _copy_for(self, device: Device) -> Device:
        """Return the device of the copy for a user: its own if that is a CPU, else the CPU of its host."""
        if self.step.plan.emulate or device.kind == "cpu":
            return device
        return self.step.plan.topology.first_cpu(*device.host)


def _least_bytes(step: Step, tensor: Tensor) -> int:
    """Return the bytes of the parts of a joined tensor whose sizes are known; 0 for other tensors."""
    op = step.ops[tensor.op]
    return sum(each.bytes or 0 for each in op.inputs[:-1]) if op.type == "ConcatV2" else 0


def _transfer(
    step: Step,
    source: Device,
    target: Device,
    tensors: Mapping[Result, Tensor],
    sizes: Mapping[str, int],
    named: int | None,
) -> MapTransfer:
    found = [(sizes.get(each.name, each.bytes) if sizes else each.bytes, each) for each in tensors.values()]
    known = [size for size, _ in found if size is not None]
    count = len(known) if named is None else named
    from_size = min(nlargest(count, known), default=0)
    large = [(-size, each.name) for size, each in found if size is not None and size >= from_size]
    return MapTransfer(
        source.ref,
        target.ref,
        tensors=len(found),
        bytes=sum(known) + sum(_least_bytes(step, each) for size, each in found if size is None),
        bytes_unknown=len(found) - len(known),
        largest=tuple(MapTensor(name, -size) for size, name in sorted(large)[:count]),
    )
