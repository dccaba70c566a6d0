"""Means of what clones have for a statistic, in a step that is written anew."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.suggest.steps.origin import shape_text
from compiler.suggest.steps.sums import Reduction, Value, Writer
from compiler.time.work import Signature, TimedOp
from compiler.topology import Device


def mean(writer: Writer, name: str, values: Sequence[Value], device: Device) -> Value:
    """Write the mean of some values, in which each counts as much as its clone has examples.

    Args:
        writer: Writes the ops of the step.
        name: The statistic, or a piece of it.
        values: The value of each clone; a single one is its own mean.
        device: The device of the statistic.
    """
    if len(values) == 1:
        return values[0]
    sums = Reduction(name, tuple(values), (device,), 0)
    parts = [
        _weighted(writer, f"aggregate/{name}/clone_{at}/mul", each, device) for at, each in enumerate(values)
    ]
    return sums.add(writer, device, parts, "mean")


def _weighted(writer: Writer, name: str, value: Value, device: Device) -> Value:
    share = Signature("Const", (shape_text(value.dtype, ()),))
    number = writer.add(TimedOp(f"{name}/share", share, device, 0, 0, scope="/".join(name.split("/")[:2])))
    weight = Value(number, f"{name}/share:0", device, value.dtype, (), value.item)
    return writer.make("Mul", name, device, [value, weight], value.shape)
