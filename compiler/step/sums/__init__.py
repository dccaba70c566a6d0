"""Sums over clones: one aggregation in each file, and the table of all.

The losses of the towers are scaled by their share before differentiation, so that every aggregation is a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from compiler.step.record import Value
from compiler.step.sums.add_n import add_n
from compiler.step.sums.base import Aggregation, Reduction
from compiler.step.sums.collective import collective
from compiler.step.sums.compress import CASTS, narrowed
from compiler.step.sums.hierarchical import hierarchical
from compiler.step.sums.pack import reduce_packed
from compiler.step.sums.ring import ring
from compiler.step.sums.shuffle import shuffle
from compiler.step.sums.tree import tree
from dsl import ir
from dsl.schema import arguments_of

AGGREGATIONS: dict[str, Callable[..., list[Value]]] = {
    "add_n": add_n,
    "tree": tree,
    "hierarchical": hierarchical,
    "ring": ring,
    "shuffle": shuffle,
    "collective": collective,
}
"""The algorithms; arguments beyond the reduction are those that the schema gives them."""

__all__ = ["AGGREGATIONS", "Aggregation", "Reduction", "make_aggregation", "reduce_all", "sums_of"]


def make_aggregation(call: ir.Call) -> Aggregation:
    """Return the algorithm of a call of the spec, such as `shuffle(shards = 4)`."""
    return partial(AGGREGATIONS[call.name], **arguments_of("aggregation", call))


def sums_of(update: ir.Update) -> Aggregation:
    """Return the algorithm that sums gradients, with casts if these are sent with fewer bits."""
    aggregation, compress = make_aggregation(update.aggregate), update.compress
    return (
        aggregation
        if compress is None or compress.name not in CASTS
        else narrowed(aggregation, compress.name)
    )


def reduce_all(reductions: Sequence[Reduction], update: ir.Update) -> list[list[Value]]:
    """Return the sums of each of `reductions`.

    Args:
        reductions: The values to be summed, in the order in which backpropagation finishes them.
        update: The block `update` of the spec.

    Returns:
        For each reduction, its sum at each of its destinations. Rows have distinct indices.
    """
    aggregation = sums_of(update)
    if update.pack is not None and reductions and len(reductions[0].values) > 1:
        return reduce_packed(reductions, aggregation, update.pack)
    return [aggregation(each) for each in reductions]
