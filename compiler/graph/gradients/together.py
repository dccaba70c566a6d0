"""Small gradients that a worker sends to a server go there with the rows of tables, in one tensor.

A call between two processes takes longer than to copy a few hundred kilobytes, by which small tensors are
joined and parted again. The rows come first, because TensorFlow need not copy the first part of a tensor to
part it from the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.copies import values_of
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.ledger import given
from compiler.plan import WorkerPlan
from compiler.reasons import Placed
from compiler.step.record import SMALL, Rows, Tensor, Value
from compiler.topology import Device


@frozen
class _Way:
    """What gradients that go together have in common: their type, and where they come from and go to."""

    dtype: str
    source: Device
    target: Device


def send_together(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Return the gradients; those of a worker that go the same way to a server are sent as one tensor.

    Args:
        assembly: The graph under construction.
        gradients: The gradients, on the devices on which they were made or summed.
    """
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
        parted = _sent(assembly, [found[at] for at in members], f"{assembly.scope}/together_{number}/")
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


def _elements(value: tf.Tensor) -> int:
    return int(prod(value.shape.as_list()))


def _home(assembly: Assembly, gradient: SummedGradient) -> Placed:
    return assembly.ledger.entries[values_of(gradient.copies[0]).op].placed


def _sent(assembly: Assembly, members: Sequence[SummedGradient], scope: str) -> list[Value]:
    """Join gradients where they are, and part them beside their variables.

    Those of rows are the first members. Their number is not known, so the others are counted from the end.
    """
    values = [assembly.made(each.copies[0]) for each in members]
    with assembly.ledger.place(_home(assembly, members[0]), "gradient"), tf.name_scope(scope):
        flat = [tf.reshape(values_of(each), [-1]) for each in values]
        joined = tf.concat(flat, 0, name="joined")
    parted: list[Value] = []
    begin: Any = 0
    left = sum(_elements(value) for value in values if not isinstance(value, tf.IndexedSlices))
    for each, value in zip(members, values, strict=True):
        placed = assembly.ledger.place(each.variable.beside(), "aggregate")
        with placed, tf.name_scope(f"{scope}{each.variable.name}/"):
            if isinstance(value, tf.IndexedSlices):
                row = value.values.shape.as_list()[1:]
                size = tf.size(value.indices) * prod(row)  # the server has the numbers of the rows
                rows = tf.reshape(tf.slice(joined, [begin], [size]), [-1, *row])
                parted.append(given(tf.IndexedSlices(rows, value.indices)))
                begin += size
            else:
                part = joined[-left : _elements(value) - left or None]
                parted.append(given(tf.reshape(part, value.shape)))
                left -= _elements(value)
    return parted
