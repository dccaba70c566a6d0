"""What a training step sends from device to device, from static shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from compiler.graph.dtypes import size_in_bytes
from compiler.placement_map import MapTransfer
from compiler.topology import Device

if TYPE_CHECKING:
    from compiler.graph.compiled import CompiledGraph


def list_transfers(compiled: CompiledGraph) -> tuple[MapTransfer, ...]:
    """Return tensors and bytes per pair of devices for one step.

    A tensor goes to a device once however many ops use it.
    """
    sent: dict[tuple[Device, Device], dict[str, int | None]] = {}
    entries = compiled.ledger.entries
    for op in _step_ops(compiled):
        here = entries[op.name].device
        for tensor in op.inputs:
            there = entries[tensor.op.name].device
            if there != here and tensor.dtype not in (tf.resource, tf.variant):
                sent.setdefault((there, here), {})[tensor.name] = size_in_bytes(
                    tensor.shape.as_list() if tensor.shape.rank is not None else (None,), tensor.dtype.name
                )
    order = sorted(sent, key=lambda pair: (pair[0].ordinal, pair[1].ordinal))
    return tuple(_transfer(pair[0], pair[1], sent[pair]) for pair in order)


def _transfer(source: Device, target: Device, tensors: dict[str, int | None]) -> MapTransfer:
    known = [each for each in tensors.values() if each is not None]
    return MapTransfer(source.ref, target.ref, len(tensors), sum(known), len(tensors) - len(known))


def _step_ops(compiled: CompiledGraph) -> list[Any]:
    """Return the ops that a step runs: all that the train op and the loss depend on."""
    pending = [compiled.data_loss.op] + ([compiled.train_op] if compiled.train_op is not None else [])
    seen: dict[str, Any] = {}
    while pending:
        op = pending.pop()
        if op.name not in seen:
            seen[op.name] = op
            pending += [each.op for each in op.inputs]
            pending += op.control_inputs
    return list(seen.values())
