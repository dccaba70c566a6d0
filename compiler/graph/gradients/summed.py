"""Summed gradients, each beside the copies of its variable: tensors, or rows of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from attrs import evolve, frozen

from compiler.figures import gathered
from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.weighting import SCOPE
from compiler.graph.variables.variables import GraphVariable
from compiler.step.record import Rows, Tensor, Value
from compiler.step.values import merge_rows, values_of, with_values
from compiler.step.writer import Spot


@frozen
class SummedGradient:
    """The gradient of a variable over the towers of an update."""

    variable: GraphVariable
    # The gradient for each copy of the variable. All copies of a replicated variable get the same bits. A
    # sparse gradient has distinct indices.
    copies: tuple[Value, ...]
    part: int = 0  # the number of the part of the loss, until those of all parts are joined


def beside(assembly: Assembly, gradient: SummedGradient, scope: str, copy: int = 0) -> Spot:
    """Return where ops are written on the device of a copy of the gradient's variable."""
    variable = gradient.variable
    own = f"{assembly.scope}/{scope}/{variable.name}"
    return Spot(assembly.ledger.writer("update"), own, variable.beside(copy))


def change_copies(
    assembly: Assembly, gradient: SummedGradient, scope: str, change: Callable[[Spot, Tensor], Tensor]
) -> SummedGradient:
    """Return a gradient whose value for every copy of its variable is changed on the device of that copy.

    Args:
        change: Writes the new elements of one copy; rows keep their numbers.
    """
    copies = [
        with_values(value, change(beside(assembly, gradient, scope, copy), values_of(value)))
        for copy, value in enumerate(gradient.copies)
    ]
    return evolve(gradient, copies=tuple(copies))


def join_parts(
    assembly: Assembly, gradients: Sequence[SummedGradient], inverses: Sequence[Tensor | None]
) -> list[SummedGradient]:
    """Return the gradient of the loss by each variable, made beside the variable from those of the parts.

    Args:
        inverses: For each part, the factor on its gradients, or None.
    """
    of_variables = gathered((each.variable.name, each) for each in gradients)
    return [_joined(assembly, each, inverses) for each in of_variables.values()]


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
            copies.append(merge_rows(at.writer, at.scope, rows, at.placed))
    return evolve(first, copies=tuple(copies), part=0)


def add_rows(at: Spot, total: Tensor, rows: Sequence[Rows]) -> Tensor:
    """Write a tensor to which rows of it are added."""
    return write_traced(at, _scattered, total, rows) if rows else total


def _scattered(total: tf.Tensor, rows: Sequence[tf.IndexedSlices]) -> tf.Tensor:
    for each in rows:
        total = tf.tensor_scatter_nd_add(total, tf.expand_dims(each.indices, 1), each.values)
    return total
