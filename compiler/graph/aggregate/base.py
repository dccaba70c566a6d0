"""The values that an aggregation sums, and the steps of which all aggregations are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.aggregate.parts import sum_parts
from compiler.graph.aggregate.together import SumWriter
from compiler.graph.ledger import Ledger
from compiler.reasons import Placed

Gradient = Any  # a tensor, or tf.IndexedSlices: rows of an embedding; a tensor may be still to come


@frozen
class Reduction:
    """Values of equal shape, one for each clone, that are to be summed: gradients of a variable, or a bucket.

    Attributes:
        name: The name scope of the ops.
        values: The value of each clone. All are dense, or all are rows.
        homes: The place where each value was made.
        destinations: The places that need the sum: that of the update of a shared variable, or that of every
            copy in the order of the clones.
        ledger: The ledger of the graph.
        number: Its number among the reductions of a step, in the order in which backpropagation finishes
            them. Algorithms that could work on any device use the devices in turn by it.
        owner: The number of the clone that alone needs the sum, if each clone needs that of its own part of a
            gradient; else None. The parts of all clones together are then reduced and scattered.
        distinct: Whether the rows of each value have distinct indices.
        writer: What writes the sums and copies instead of adding them to the graph at once, or None.
    """

    name: str
    values: Sequence[Gradient]
    homes: Sequence[Placed]
    destinations: Sequence[Placed]
    ledger: Ledger = field(repr=False)
    number: int = 0
    owner: int | None = None
    distinct: bool = False
    writer: SumWriter | None = field(default=None, repr=False)

    @property
    def is_sparse(self) -> bool:
        """Whether rows are summed."""
        return isinstance(self.values[0], tf.IndexedSlices)

    @property
    def one_destination(self) -> Placed | None:
        """The place of the sum if only one needs it, else None."""
        return self.destinations[0] if len(self.destinations) == 1 else None

    @contextmanager
    def at(self, placed: Placed) -> Iterator[None]:
        """Create the ops made inside at `placed`, with the reduction's name scope."""
        with self.ledger.place(placed, "aggregate"), tf.name_scope(self._scope):
            yield

    @property
    def _scope(self) -> str:
        return f"aggregate/{self.name}/"

    def add(self, placed: Placed, values: Sequence[Gradient], name: str) -> Gradient:
        """Return the sum of `values`, made at `placed`; a single value without equal rows is its own sum.

        Args:
            placed: The place at which the sum is made.
            values: The values: all dense and of one shape, or all rows.
            name: The name of the op.
        """
        if len(values) == 1 and (self.distinct or not self.is_sparse):
            return values[0]
        if self.writer is not None:
            return self.writer.add(f"{self._scope}{name}", values, placed)
        with self.at(placed):
            return sum_parts(values, name)

    def copy(self, placed: Placed, value: Gradient, source: Placed, name: str) -> Gradient:
        """Return `value`, which is at `source`, as a tensor at `placed`.

        Args:
            placed: The place at which the value is needed.
            value: The value.
            source: The place at which the value is.
            name: The name of the op that copies it.

        Returns:
            The value itself if both places have the same device.
        """
        if placed.device == source.device:
            return value
        if self.writer is not None:
            return self.writer.copy(f"{self._scope}{name}", value, placed)
        with self.at(placed):
            return tf.nest.map_structure(
                lambda each: tf.identity(each, name=name), value, expand_composites=True
            )


# Returns the sum at each destination, in their order. Rows come back with distinct indices.
Aggregation: TypeAlias = Callable[[Reduction], list[Gradient]]
