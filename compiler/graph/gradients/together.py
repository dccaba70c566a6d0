"""Small gradients that a worker sends to a server go there with the rows of tables, in one tensor.

A call between two processes takes longer than to copy a few hundred kilobytes, by which small tensors are
joined and parted again. The rows come first, because TensorFlow need not copy the first part of a tensor to
part it from the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.summed import SummedGradient, values_of
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import SMALL, Rows, Tensor, Value
from compiler.step.writer import Spot
from compiler.topology import Device


@frozen
class _Way:
    """What gradients that go together have in common: their type, and where they come from and go to."""

    dtype: str
    source: Device
    target: Device


def send_together(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Return the gradients; those of a worker that go the same way to a server are sent as one tensor."""
    found = list(gradients)
    if not isinstance(assembly.plan, WorkerPlan):
        return found
    ways: dict[_Way, list[int]] = {}
    for at, each in enumerate(found):
        way = _way(assembly, each)
        if way is not None:
            ways.setdefault(way, []).append(at)
    for number, members in enumerate(each for each in ways.values() if len(each) > 1):
        members.sort(key=lambda at: not isinstance(found[at].copies[0], Rows))
        parted = _sent(assembly, [found[at] for at in members], f"{assembly.scope}/together_{number}")
        for at, value in zip(members, parted, strict=True):
            found[at] = evolve(found[at], copies=(value,))
    return found


def _way(assembly: Assembly, gradient: SummedGradient) -> _Way | None:
    """Return the way of a gradient that may go with others: a small one, or the rows of a batch."""
    variable, value = gradient.variable, gradient.copies[0]
    if len(gradient.copies) > 1 or (isinstance(value, Tensor) and (value.bytes or 0) > SMALL):
        return None
    dtype, source, target = values_of(value).dtype, _home(assembly, gradient).device, variable.beside().device
    return _Way(dtype, source, target) if source.host != target.host else None


def _home(assembly: Assembly, gradient: SummedGradient) -> Placed:
    return assembly.ledger.entries[values_of(gradient.copies[0]).op].placed


def _sent(assembly: Assembly, members: Sequence[SummedGradient], scope: str) -> list[Value]:
    """Join gradients where they are, and part them beside their variables.

    Those of rows are the first members. Their number is not known, so the others are counted from the end.
    """
    values, writer = [each.copies[0] for each in members], assembly.ledger.writer("gradient")
    at = Spot(writer, scope, _home(assembly, members[0]))
    flat = [at.writer.reshape(f"{scope}/Reshape", values_of(each), [-1], at.placed) for each in values]
    joined = at.writer.concat(f"{scope}/joined", flat, 0, at.placed)
    parted: list[Value] = []
    begin: Tensor | int = 0
    left = sum(each.elements or 0 for each in values if isinstance(each, Tensor))
    for each, value in zip(members, values, strict=True):
        at = Spot(writer.on("aggregate"), f"{scope}/{each.variable.name}", each.variable.beside())
        if isinstance(value, Rows):
            row = (value.values.shape or ())[1:]
            rows, begin = write_traced(at, _next_rows, joined, value.indices, begin, row=row)
            parted.append(Rows(rows, value.indices))
        else:
            stop = (value.elements or 0) - left
            part = at.writer.part(f"{at.scope}/strided_slice", joined, -left, stop or None, at.placed)
            parted.append(at.writer.reshape(f"{at.scope}/Reshape", part, value.known_shape or (), at.placed))
            left = -stop
    return parted


def _next_rows(
    joined: tf.Tensor, indices: tf.Tensor, begin: tf.Tensor | int, row: Sequence[int]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return rows of which a server has the numbers, and where what comes after them begins."""
    size = tf.size(indices) * prod(row)
    rows = tf.reshape(tf.slice(joined, [begin], [size]), [-1, *row])
    return rows, begin + size
