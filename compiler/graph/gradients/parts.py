"""Join the gradients of the parts of a loss, each divided by its weight."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.copies import beside, values_of, with_values
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.weighting import SCOPE
from compiler.step.record import Rows, Tensor, Value
from compiler.step.rows import join_rows, merge_rows
from compiler.step.writer import Spot


def join_parts(
    assembly: Assembly, gradients: Sequence[SummedGradient], inverses: Sequence[Tensor | None]
) -> list[SummedGradient]:
    """Return the gradient of the loss by each variable, made beside the variable from those of the parts.

    Args:
        assembly: The graph under construction.
        gradients: The gradients of the parts.
        inverses: For each part, the factor on its gradients, or None.
    """
    found: dict[str, list[SummedGradient]] = {}
    for each in gradients:
        found.setdefault(each.variable.name, []).append(each)
    return [_joined(assembly, each, inverses) for each in found.values()]


def _joined(
    assembly: Assembly, parts: Sequence[SummedGradient], inverses: Sequence[Tensor | None]
) -> SummedGradient:
    first = parts[0]
    if len(parts) == 1 and inverses[first.part] is None:
        return first
    copies: list[Value] = []
    for copy in range(len(first.copies)):
        at = beside(assembly, first, SCOPE, copy)
        weighted: list[Value] = []
        for each in parts:
            value, factor = each.copies[copy], inverses[each.part]
            times = value if factor is None else with_values(value, at.times(values_of(value), factor))
            weighted.append(times)
        rows = [each for each in weighted if isinstance(each, Rows)]
        dense = [each for each in weighted if isinstance(each, Tensor)]
        if dense:
            total = dense[0] if len(dense) == 1 else at.sum("AddN", dense)
            copies.append(add_rows(at, total, rows))
        elif len(rows) == 1:
            copies += rows
        else:
            joined = join_rows(at.writer, at.scope, rows, at.placed)
            copies.append(merge_rows(at.writer, at.scope, joined, at.placed))
    return evolve(first, copies=tuple(copies), part=0)


def add_rows(at: Spot, total: Tensor, rows: Sequence[Rows]) -> Tensor:
    """Write a tensor to which rows of it are added."""
    found: Tensor = write_traced(at, _scattered, total, rows) if rows else total
    return found


def _scattered(total: tf.Tensor, rows: Sequence[tf.IndexedSlices]) -> tf.Tensor:
    for each in rows:
        total = tf.tensor_scatter_nd_add(total, tf.expand_dims(each.indices, 1), each.values)
    return total
