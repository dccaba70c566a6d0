"""Join the gradients of the parts of a loss, each divided by its weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.copies import Gradient, beside, times
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.gradients.weighting import SCOPE
from compiler.graph.ledger import given
from compiler.graph.rows import sum_equal_rows
from compiler.step.record import Rows, Value


def join_parts(
    assembly: Assembly, gradients: Sequence[SummedGradient], inverses: Sequence[tf.Tensor | None]
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
    assembly: Assembly, parts: Sequence[SummedGradient], inverses: Sequence[tf.Tensor | None]
) -> SummedGradient:
    first = parts[0]
    if len(parts) == 1 and inverses[first.part] is None:
        return first
    copies: list[Value] = []
    for copy in range(len(first.copies)):
        with beside(assembly, first, SCOPE, copy):
            weighted = [_times(assembly.made(each.copies[copy]), inverses[each.part]) for each in parts]
            if any(not isinstance(each, tf.IndexedSlices) for each in weighted):
                copies.append(given(_add(weighted)))
                continue
        rows = [each for each in map(given, weighted) if isinstance(each, Rows)]
        if len(rows) > 1:
            scope, place = f"{assembly.scope}/{SCOPE}/{first.variable.name}", first.variable.beside(copy)
            rows = [sum_equal_rows(assembly.ledger, rows, scope, place, "update")]
        copies += rows
    return evolve(first, copies=tuple(copies), part=0)


def _times(gradient: Gradient, factor: tf.Tensor | None) -> Gradient:
    return gradient if factor is None else times(gradient, factor)


def _add(gradients: Sequence[Gradient]) -> Gradient:
    """Return the sum of gradients, some of which may be rows, but not all."""
    rows = [each for each in gradients if isinstance(each, tf.IndexedSlices)]
    dense: list[Any] = [each for each in gradients if not isinstance(each, tf.IndexedSlices)]
    total = dense[0] if len(dense) == 1 else tf.add_n(dense)
    for each in rows:
        total = tf.tensor_scatter_nd_add(total, tf.expand_dims(each.indices, 1), each.values)
    return total
