"""A gradient that was summed over towers, as it goes from the aggregation to the update of its variable."""

from __future__ import annotations

from attrs import frozen

from compiler.graph.aggregate.base import Gradient
from compiler.graph.variables.variables import GraphVariable


@frozen
class SummedGradient:
    """The gradient of a variable over the towers of an update, for each copy of the variable.

    A sparse one has distinct indices. All copies of a replicated variable get the same bits. `part` is the
    part of the loss that it is of, until those of all parts are joined.
    """

    variable: GraphVariable
    copies: tuple[Gradient, ...]
    part: int = 0
