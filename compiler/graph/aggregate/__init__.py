"""Gradient aggregation: one algorithm in each file, and the table of all.

The losses of the towers are scaled by their share before differentiation, so that every aggregation is a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import tensorflow as tf
from attrs import evolve

from compiler.graph.aggregate.add_n import add_n
from compiler.graph.aggregate.base import Aggregation, Gradient, Reduction
from compiler.graph.aggregate.collective import collective
from compiler.graph.aggregate.hierarchical import hierarchical
from compiler.graph.aggregate.pack import reduce_packed
from compiler.graph.aggregate.ring import ring
from compiler.graph.aggregate.shuffle import shuffle
from compiler.graph.aggregate.together import SumWriter
from compiler.graph.aggregate.tree import tree
from dsl import ir
from dsl.schema import arguments_of

AGGREGATIONS: dict[str, Callable[..., list[Gradient]]] = {
    "add_n": add_n,
    "tree": tree,
    "hierarchical": hierarchical,
    "ring": ring,
    "shuffle": shuffle,
    "collective": collective,
}
"""The algorithms; arguments beyond the reduction are those that the schema gives them."""

_OF_SUMS_AND_COPIES = ("add_n", "tree", "hierarchical")
"""The algorithms that do nothing but add values and copy sums, so that their ops can be written as nodes."""

__all__ = ["AGGREGATIONS", "Aggregation", "Reduction", "make_aggregation", "reduce_all"]


def make_aggregation(call: ir.Call) -> Aggregation:
    """Return the algorithm of a call of the spec, such as `shuffle(shards = 4)`."""
    return partial(AGGREGATIONS[call.name], **arguments_of("aggregation", call))


def reduce_all(reductions: Sequence[Reduction], update: ir.Update) -> list[list[Gradient]]:
    """Return the sums of each of `reductions`.

    Args:
        reductions: The values to be summed, in the order in which backpropagation finishes them.
        update: The block `update` of the spec.

    Returns:
        For each reduction, its sum at each of its destinations. Rows have distinct indices.
    """
    aggregation = make_aggregation(update.aggregate)
    if update.pack is not None and reductions and len(reductions[0].values) > 1:
        return reduce_packed(reductions, aggregation, update.pack)
    if update.aggregate.name in _OF_SUMS_AND_COPIES and reductions:
        return _reduce_together(reductions, aggregation)
    return [aggregation(each) for each in reductions]


def _reduce_together(reductions: Sequence[Reduction], aggregation: Aggregation) -> list[list[Gradient]]:
    """Return the sums of each of `reductions`, whose ops are added to the graph together.

    Rows of embeddings are summed by several ops each, which TensorFlow's functions make. They are few.

    Args:
        reductions: The values to be summed.
        aggregation: The algorithm, which does nothing but add values and copy sums.
    """
    graph = tf.compat.v1.get_default_graph()
    writer, found = SumWriter(graph, reductions[0].ledger), []
    with graph.name_scope(None):
        for each in reductions:
            if each.is_sparse:
                writer.finish()  # the ops are in the order of the sums
                found.append(aggregation(each))
            else:
                found.append(aggregation(evolve(each, writer=writer)))
        writer.finish()
    return [[writer.made(each) for each in sums] for sums in found]
