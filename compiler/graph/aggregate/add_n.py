"""All gradients of a variable to one device, summed there by one op."""

from __future__ import annotations

import tensorflow as tf

from compiler.graph.aggregate.base import Gradient, Reduction
from compiler.graph.ledger import Ledger


def add_n(reduction: Reduction, ledger: Ledger) -> list[Gradient]:
    """Sum at the first destination; the others take a copy. Sparse gradients are put one behind the other."""
    gradients = list(reduction.gradients)
    if len(gradients) == 1:
        return gradients * len(reduction.destinations)
    with ledger.place(reduction.destinations[0], "aggregate"), tf.name_scope(f"aggregate/{reduction.name}/"):
        if isinstance(gradients[0], tf.IndexedSlices):
            total = tf.IndexedSlices(
                tf.concat([each.values for each in gradients], 0, name="values"),
                tf.concat([each.indices for each in gradients], 0, name="indices"),
            )
        else:
            total = tf.add_n(gradients, name="add_n")
    return [total] * len(reduction.destinations)
