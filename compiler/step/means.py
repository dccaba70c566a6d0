"""Means of what clones have for a statistic, and sums of what they have changed in it."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.writer import StepWriter


def mean(
    writer: StepWriter, name: str, values: Mapping[int, Tensor], shares: Mapping[int, float], placed: Placed
) -> Tensor:
    """Return the mean of some values, in which each counts as much as its clone has examples.

    Args:
        writer: Writes the ops.
        name: The statistic, or a piece of it.
        values: The value of each clone by its number; a single one is its own mean.
        shares: The share of the examples that each clone has.
        placed: The place of the statistic.
    """
    if len(values) == 1:
        return next(iter(values.values()))
    parts: list[Tensor] = []
    for clone, value in values.items():
        scope = f"aggregate/{name}/clone_{clone}"
        share = writer.constant(writer.unique(f"{scope}/Const"), shares[clone], value.dtype, placed)
        parts += writer.write("Mul", writer.unique(f"{scope}/mul"), (value, share), placed)
    return writer.add(f"aggregate/{name}/mean", parts, placed)


def change(
    writer: StepWriter, name: str, values: Mapping[int, Tensor], before: Mapping[int, Tensor], placed: Placed
) -> Tensor:
    """Return the sum of what clones have changed in a statistic."""
    parts: list[Tensor] = []
    for clone, value in values.items():
        own = writer.unique(f"aggregate/{name}/clone_{clone}/sub")
        parts += writer.write("Sub", own, (value, before[clone]), placed)
    return writer.add(f"aggregate/{name}/change", parts, placed)
