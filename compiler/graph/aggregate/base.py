"""What an aggregation is given, and the few steps of which all of them are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.aggregate.parts import sum_parts
from compiler.graph.ledger import Ledger
from compiler.reasons import Placed

Gradient = Any  # a tensor, or tf.IndexedSlices: rows of an embedding


@frozen
class Reduction:
    """Values of equal shape, one per clone, that are to be summed: one variable's gradients, or a bucket.

    `values[k]` is clone k's and was made at `homes[k]`; all are dense, or all are rows. `destinations` are
    where the sum is wanted: the one place where a shared variable is updated, or the place of every copy, in
    the order of the clones. `number` counts the reductions of a step in the order in which backpropagation
    finishes them; algorithms that could put their work on any device rotate by it.
    """

    name: str
    values: Sequence[Gradient]
    homes: Sequence[Placed]
    destinations: Sequence[Placed]
    ledger: Ledger = field(repr=False)
    number: int = 0

    @property
    def is_sparse(self) -> bool:
        """Whether rows are summed."""
        return isinstance(self.values[0], tf.IndexedSlices)

    @property
    def one_destination(self) -> Placed | None:
        """The place of the sum where only one wants it."""
        return self.destinations[0] if len(self.destinations) == 1 else None

    @contextmanager
    def at(self, placed: Placed) -> Iterator[None]:
        """Put the ops made inside at `placed`, named after what is summed."""
        with self.ledger.place(placed, "aggregate"), tf.name_scope(f"aggregate/{self.name}/"):
            yield

    def add(self, placed: Placed, values: Sequence[Gradient], name: str) -> Gradient:
        """Return the sum of `values`, made at `placed`; a single dense value is its own sum."""
        if len(values) == 1 and not self.is_sparse:
            return values[0]
        with self.at(placed):
            return sum_parts(values, name)

    def copy(self, placed: Placed, value: Gradient, source: Placed, name: str) -> Gradient:
        """Return `value`, which is at `source`, as a tensor at `placed`."""
        if placed.device == source.device:
            return value
        with self.at(placed):
            return tf.nest.map_structure(
                lambda each: tf.identity(each, name=name), value, expand_composites=True
            )


# Returns the sum at each destination, in their order. Rows come back with distinct indices.
Aggregation: TypeAlias = Callable[[Reduction], list[Gradient]]
