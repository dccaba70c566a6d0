"""The tensors that a training step sends between devices, counted from static or assumed shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.dtypes import size_in_bytes
from compiler.graph.inspect.devices.of_worker import Moves
from compiler.graph.inspect.step.assumed import assumed_shape
from compiler.graph.inspect.step.ops import step_ops
from compiler.mapping.records import MapTensor, MapTransfer
from compiler.topology import Device, Host

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph

LARGEST = 5
COPIED_ELEMENTS = 16  # TensorFlow copies constants of up to so many elements instead of sending them


def list_transfers(
    compiled: CompiledGraph,
    *,
    of_worker: Host | None = None,
    named: int | None = LARGEST,
    sizes: Mapping[str, int] | None = None,
) -> tuple[MapTransfer, ...]:
    """Return the number of tensors and bytes that one step sends, for each pair of devices.

    A tensor is sent to a device once, however many ops use it there. Control inputs send no bytes and are
    left out. A handle of a resource never leaves its device.

    Args:
        compiled: The graph.
        of_worker: The task of another worker, if each has a graph of its own and its step is meant, which is
            without what only the chief runs. None means the step of the graph itself.
        named: How many of the largest tensors are named; None for all.
        sizes: The bytes of tensors whose sizes depend on the examples, by name, if they are known.
    """
    sent: dict[tuple[Device, Device], dict[str, int | None]] = {}
    least: dict[str, int] = {}
    for tensor, source, target in _Step(compiled, of_worker).crossings():
        size = (sizes or {}).get(tensor.name)
        size = _assumed_bytes(compiled, tensor) if size is None else size
        sent.setdefault((source, target), {})[tensor.name] = size
        if size is None:
            least[tensor.name] = _least_bytes(compiled, tensor)
    order = sorted(sent, key=lambda pair: (pair[0].ordinal, pair[1].ordinal))
    return tuple(_transfer(source, target, sent[source, target], least, named) for source, target in order)


def tensors_without_size(compiled: CompiledGraph) -> list[Any]:
    """Return the tensors that a step sends whose shapes depend on the examples, without those of strings."""
    crossings = _Step(compiled).crossings()
    found = {each.name: each for each, _, _ in crossings if not each.shape.is_fully_defined()}
    return [each for each in found.values() if each.dtype != tf.string]


@define
class _Step:
    """The ops of a step, and their devices."""

    compiled: CompiledGraph
    of_worker: Host | None = None
    moves: Moves | None = field(init=False)
    ops: list[Any] = field(init=False)
    users: dict[str, list[Any]] = field(factory=dict)  # small constant -> the ops that use it
    waiting: set[str] = field(factory=set)  # the ops for which others only wait

    def __attrs_post_init__(self) -> None:
        self.moves = None if self.of_worker is None else Moves(self.compiled)
        self.ops = step_ops(self.compiled, of_chief=self.of_worker is None)
        for op in self.ops:
            self.waiting.update(each.name for each in op.control_inputs)
            for tensor in op.inputs:
                if _is_small_constant(tensor):
                    self.users.setdefault(tensor.op.name, []).append(op)

    def crossings(self) -> Iterator[tuple[Any, Device, Device]]:
        """Yield each tensor that is sent, with the device that it leaves and the device that receives it."""
        copied = {name: self._is_copied(name) for name in self.users}
        for op in self.ops:
            here = self._device(op)
            for tensor in op.inputs:
                there = self._copy_for(here) if copied.get(tensor.op.name) else self._device(tensor.op)
                if there != here and tensor.dtype != tf.resource:
                    yield tensor, there, here

    def _device(self, op: Any) -> Device:
        return self._device_of(str(op.name))

    def _device_of(self, name: str) -> Device:
        if self.moves is None or self.of_worker is None:
            return self.compiled.ledger.entries[name].device
        return self.moves.device(name, self.of_worker)

    def _is_copied(self, name: str) -> bool:
        """Whether TensorFlow copies a small constant to the devices that use it, and sends nothing."""
        users = self.users[name]
        constant = self._device_of(name)
        if len(users) == 1 or name in self.waiting or self._copy_for(constant) != constant:
            return False
        return len({self._copy_for(self._device(each)) for each in users}) > 1

    def _copy_for(self, device: Device) -> Device:
        """Return the device of the copy for a user: its own if that is a CPU, else the CPU of its host."""
        if self.compiled.plan.emulate or device.kind == "cpu":
            return device
        return self.compiled.plan.topology.first_cpu(*device.host)


def _is_small_constant(tensor: Any) -> bool:
    return tensor.op.type == "Const" and (tensor.shape.num_elements() or 0) <= COPIED_ELEMENTS


def _assumed_bytes(compiled: CompiledGraph, tensor: Any) -> int | None:
    """Return what `tensor_bytes` does, with the sizes that the plan assumes for axes without a fixed one."""
    shape = assumed_shape(compiled, tensor)
    return size_in_bytes(shape.as_list(), tensor.dtype.name) if shape.rank is not None else None


def _least_bytes(compiled: CompiledGraph, tensor: Any) -> int:
    """Return the bytes of the parts of a joined tensor whose sizes are known; 0 for other tensors."""
    if tensor.op.type != "ConcatV2":
        return 0
    return sum(_assumed_bytes(compiled, each) or 0 for each in tensor.op.inputs[:-1])


def tensor_bytes(tensor: Any) -> int | None:
    """Return the bytes of a tensor; None if its shape is not known or its type has no fixed size."""
    shape = tensor.shape
    return size_in_bytes(shape.as_list(), tensor.dtype.name) if shape.rank is not None else None


def _transfer(
    source: Device,
    target: Device,
    tensors: Mapping[str, int | None],
    least: Mapping[str, int],
    named: int | None,
) -> MapTransfer:
    known = {name: size for name, size in tensors.items() if size is not None}
    largest = sorted(known, key=lambda name: (-known[name], name))[:named]
    return MapTransfer(
        source.ref,
        target.ref,
        tensors=len(tensors),
        bytes=sum(known.values()) + sum(least[name] for name in tensors if name not in known),
        bytes_unknown=len(tensors) - len(known),
        largest=tuple(MapTensor(name, known[name]) for name in largest),
    )
