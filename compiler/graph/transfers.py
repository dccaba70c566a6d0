"""What a training step sends from device to device, from static shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from compiler.graph.dtypes import size_in_bytes
from compiler.graph.step import step_ops
from compiler.placement_map import MapTensor, MapTransfer
from compiler.topology import Device

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph

LARGEST = 5


def list_transfers(compiled: CompiledGraph) -> tuple[MapTransfer, ...]:
    """Return tensors and bytes per pair of devices for one step.

    A tensor goes to a device once however many ops use it there. What only waits for another device sends no
    bytes and is left out; a handle of a resource never leaves its device.
    """
    sent: dict[tuple[Device, Device], dict[str, int | None]] = {}
    entries = compiled.ledger.entries
    for op in step_ops(compiled):
        here = entries[op.name].device
        for tensor in op.inputs:
            there = entries[tensor.op.name].device
            if there != here and tensor.dtype != tf.resource:
                sent.setdefault((there, here), {})[tensor.name] = tensor_bytes(tensor)
    order = sorted(sent, key=lambda pair: (pair[0].ordinal, pair[1].ordinal))
    return tuple(_transfer(source, target, sent[source, target]) for source, target in order)


def tensor_bytes(tensor: Any) -> int | None:
    """Return the bytes of a tensor; None where its shape is not known, or its type has no fixed size."""
    shape = tensor.shape
    return size_in_bytes(shape.as_list(), tensor.dtype.name) if shape.rank is not None else None


def _transfer(source: Device, target: Device, tensors: dict[str, int | None]) -> MapTransfer:
    known = {name: size for name, size in tensors.items() if size is not None}
    largest = sorted(known, key=lambda name: (-known[name], name))[:LARGEST]
    return MapTransfer(
        source.ref,
        target.ref,
        tensors=len(tensors),
        bytes=sum(known.values()),
        bytes_unknown=len(tensors) - len(known),
        largest=tuple(MapTensor(name, known[name]) for name in largest),
    )
