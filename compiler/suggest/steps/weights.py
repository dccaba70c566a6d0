"""The weights of a step, whole or in pieces: their sizes and devices, and ops on parts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from attrs import evolve

from compiler.placement.rules import Rulebook
from compiler.placement.variable_rules import pieces_of
from compiler.plan import VariableInfo, VariablePlacement
from compiler.suggest.steps.origin import shape_text
from compiler.time.work import TimedOp
from compiler.topology import Device


def infos_of(book: Rulebook, info: VariableInfo) -> list[VariableInfo]:
    """Return a weight as the rules of a book have it: whole, or its pieces.

    Args:
        book: The rules.
        info: The whole weight.
    """
    shards = pieces_of(book, info.name, info.shape, info.bytes)
    if not shards:
        return [info]
    count = prod(info.shape)
    return [
        evolve(
            info,
            name=each.name,
            shape=each.shape,
            bytes=info.bytes * prod(each.shape) // count,
            slot_bytes=info.slot_bytes * prod(each.shape) // count,
            shard=each,
        )
        for each in shards
    ]


def item_bytes(info: VariableInfo) -> int:
    """Return the bytes of an element of a variable."""
    return max(1, info.bytes // max(1, prod(info.shape)))


def homes_of(placement: VariablePlacement) -> tuple[Device, ...]:
    """Return the devices of the copies of a variable or piece, or its own."""
    return placement.copies or (placement.placed.device,)


def resized(op: TimedOp, info: VariableInfo, old: tuple[int, ...], new: tuple[int, ...]) -> TimedOp:
    """Return an op on a part of a variable as one on a part of another shape.

    Args:
        op: The op.
        info: The whole variable.
        old: The shape of the part that the op has.
        new: The shape of the part that it is to have.
    """
    item, dtype = item_bytes(info), info.dtype
    before, after = shape_text(dtype, old), shape_text(dtype, new)
    if before == after or before not in op.signature.inputs:
        return op
    inputs = tuple(after if each == before else each for each in op.signature.inputs)
    ratio = prod(new) / prod(old)
    rest = min(op.bytes, sum(each == f"{dtype}[]" for each in op.signature.inputs) * item)
    return evolve(
        op,
        signature=evolve(op.signature, inputs=inputs),
        flops=round(op.flops * ratio),
        bytes=round((op.bytes - rest) * ratio) + rest,
    )


def held_bytes(placements: Sequence[VariablePlacement]) -> Mapping[str, tuple[int, int]]:
    """Return the bytes of variables and of slots that each device holds."""
    found: dict[str, list[int]] = {}
    for each in placements:
        for device in homes_of(each):
            found.setdefault(device.ref, [0, 0])[0] += each.info.bytes
        for device in each.copies or (each.slots.device,):
            found.setdefault(device.ref, [0, 0])[1] += each.info.slot_bytes
    return {ref: (variables, slots) for ref, (variables, slots) in found.items()}
