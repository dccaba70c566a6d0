"""Sum by one op: all values are sent to one device."""

from __future__ import annotations

from compiler.graph.aggregate.base import Gradient, Reduction


def add_n(reduction: Reduction) -> list[Gradient]:
    """Sum at the first destination, and send copies to the others."""
    first = reduction.destinations[0]
    total = reduction.add(first, reduction.values, "add_n")
    return [reduction.copy(each, total, first, "copy") for each in reduction.destinations]
