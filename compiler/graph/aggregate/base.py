"""What an aggregation is given and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from attrs import frozen

from compiler.graph.ledger import Ledger
from compiler.plan import Placed, Tower

Gradient = Any  # a tensor, or tf.IndexedSlices of an embedding


@frozen
class Reduction:
    """One variable's gradients, to be summed.

    `gradients[k]` is on the device of `towers[k]`. `destinations` are where the sum is wanted: the one place
    where a shared variable is updated, or the device of every copy of a replicated one.
    """

    name: str
    gradients: Sequence[Gradient]
    towers: Sequence[Tower]
    destinations: Sequence[Placed]


# Returns the sum at each destination, in their order.
Aggregation: TypeAlias = Callable[[Reduction, Ledger], list[Gradient]]
