"""Change summed gradients beside the copies of their variables, both tensors and rows of embeddings."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.summed import SummedGradient
from compiler.step.record import Rows, Tensor, Value
from compiler.step.writer import Spot


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
        assembly: The graph.
        gradient: The gradient, with a value for each copy of its variable.
        scope: The name scope of the new ops.
        change: Writes the new elements of one copy; rows keep their numbers.
    """
    copies = [
        with_values(value, change(beside(assembly, gradient, scope, copy), values_of(value)))
        for copy, value in enumerate(gradient.copies)
    ]
    return evolve(gradient, copies=tuple(copies))


def values_of(gradient: Value) -> Tensor:
    """Return the elements of a gradient; for a sparse one, those of its rows."""
    return gradient.values if isinstance(gradient, Rows) else gradient


def tensors_of(gradient: Value) -> list[Tensor]:
    """Return the tensors that a gradient consists of."""
    return [gradient.values, gradient.indices] if isinstance(gradient, Rows) else [gradient]


def with_values(gradient: Value, values: Tensor) -> Value:
    """Return a gradient with other elements; a sparse one stays sparse.

    Args:
        gradient: The gradient.
        values: Its new elements; for a sparse one, those of its rows.
    """
    return Rows(values, gradient.indices) if isinstance(gradient, Rows) else values
