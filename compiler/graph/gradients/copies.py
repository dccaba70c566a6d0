"""Change summed gradients beside the copies of their variables, both tensors and rows of embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.ledger import given
from compiler.step.record import Rows

Gradient = Any  # a tensor, or tf.IndexedSlices with distinct indices


@contextmanager
def beside(assembly: Assembly, gradient: SummedGradient, scope: str, copy: int = 0) -> Iterator[None]:
    """Create ops on the device of a copy of the gradient's variable.

    Args:
        assembly: The graph under construction.
        gradient: The gradient.
        scope: The name scope of the ops.
        copy: The number of the copy.
    """
    variable = gradient.variable
    place = assembly.ledger.place(variable.beside(copy), "update")
    with place, tf.name_scope(f"{assembly.scope}/{scope}/{variable.name}/"):
        yield


def change_copies(
    assembly: Assembly, gradient: SummedGradient, scope: str, change: Callable[[Gradient], Gradient]
) -> SummedGradient:
    """Return a gradient whose value for every copy of its variable is changed on the device of that copy.

    Args:
        assembly: The graph.
        gradient: The gradient, with a value for each copy of its variable.
        scope: The name scope of the new ops.
        change: Returns the new value of one copy, of the same shape.
    """
    copies = []
    for copy, value in enumerate(gradient.copies):
        with beside(assembly, gradient, scope, copy):
            copies.append(given(change(assembly.made(value))))
    return evolve(gradient, copies=tuple(copies))


def values_of(gradient: Any) -> Any:
    """Return the elements of a gradient; for a sparse one, those of its rows."""
    return gradient.values if isinstance(gradient, (tf.IndexedSlices, Rows)) else gradient


def map_values(gradient: Gradient, change: Callable[[tf.Tensor], tf.Tensor]) -> Gradient:
    """Change the elements of a gradient; a sparse one stays sparse.

    Args:
        gradient: The gradient, a tensor or IndexedSlices.
        change: Makes new elements of the tensor, or of the rows, which keep their shape.
    """
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(change(gradient.values), gradient.indices)
    return change(gradient)


def times(gradient: Gradient, factor: tf.Tensor) -> Gradient:
    """Multiply a gradient by a number.

    Args:
        gradient: The gradient, a tensor or IndexedSlices.
        factor: The number, a scalar, which is cast to the type of the gradient.
    """
    return map_values(gradient, lambda values: values * tf.cast(factor, values.dtype))
