"""Sum by one op: all values are sent to one device."""

from __future__ import annotations

from compiler.step.record import Value
from compiler.step.sums.base import Reduction


def add_n(reduction: Reduction) -> list[Value]:
    """Sum at the first destination, and send copies to the others."""
    first = reduction.destinations[0]
    total = reduction.add(first, reduction.values, "add_n")
    return [reduction.copy(each, total, first, "copy") for each in reduction.destinations]
