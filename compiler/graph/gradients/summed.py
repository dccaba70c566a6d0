"""A gradient that has been summed over towers, on its way from the aggregation to the update."""

from __future__ import annotations

from attrs import frozen

from compiler.graph.variables.variables import GraphVariable
from compiler.step.record import Value


@frozen
class SummedGradient:
    """The gradient of a variable over the towers of an update.

    Attributes:
        variable: The variable.
        copies: The gradient for each copy of the variable. All copies of a replicated variable get the same
            bits. A sparse gradient has distinct indices.
        part: The number of the part of the loss, until those of all parts are joined.
    """

    variable: GraphVariable
    copies: tuple[Value, ...]
    part: int = 0
