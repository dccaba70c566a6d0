"""The values that an aggregation sums, and what all aggregations are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from attrs import field, frozen

from compiler.reasons import Placed
from compiler.shards import range_lengths
from compiler.step.record import Rows, Tensor, Value
from compiler.step.values import deal_rows, join_rows, merge_rows
from compiler.step.writer import StepWriter


@frozen
class Reduction:
    """Values of equal shape, one for each clone, that are to be summed: gradients of a variable, or a bucket.

    Attributes:
        name: The name scope of the ops.
        values: The value of each clone. All are dense, or all are rows.
        homes: The place where each value was made.
        destinations: The places that need the sum: that of the update of a shared variable, or that of every
            copy in the order of the clones.
        writer: Writes the ops.
        number: Its number among the reductions of a step, in the order in which backpropagation finishes
            them. Algorithms that could work on any device use the devices in turn by it.
        owner: The number of the clone that alone needs the sum, if each clone needs that of its own part of a
            gradient; else None. The parts of all clones together are then reduced and scattered.
        distinct: Whether the rows of each value have distinct indices.
    """

    name: str
    values: Sequence[Value]
    homes: Sequence[Placed]
    destinations: Sequence[Placed]
    writer: StepWriter = field(repr=False)
    number: int = 0
    owner: int | None = None
    distinct: bool = False

    @property
    def is_sparse(self) -> bool:
        """Whether rows are summed."""
        return isinstance(self.values[0], Rows)

    @property
    def one_destination(self) -> Placed | None:
        """The place of the sum if only one needs it, else None."""
        return self.destinations[0] if len(self.destinations) == 1 else None

    @property
    def scope(self) -> str:
        """The scope of the ops of the sum."""
        return f"aggregate/{self.name}"

    def inner(self, name: str) -> str:
        """Return a scope within that of the sum, for ops of this call alone."""
        return self.writer.unique(f"{self.scope}/{name}")

    def add(self, placed: Placed, values: Sequence[Value], name: str) -> Value:
        """Return the sum of `values`, made at `placed`; a single value without equal rows is its own sum.

        Args:
            placed: The place at which the sum is made.
            values: The values: all dense and of one shape, or all rows.
            name: The name of the op.
        """
        if len(values) == 1 and (self.distinct or not self.is_sparse):
            return values[0]
        if self.is_sparse:
            return merge_rows(self.writer, self.inner(name), cast("Sequence[Rows]", values), placed)
        return self.writer.add(f"{self.scope}/{name}", cast("Sequence[Tensor]", values), placed)

    def copy(self, placed: Placed, value: Value, source: Placed, name: str) -> Value:
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
        return self.writer.copy(f"{self.scope}/{name}", value, placed)


# Returns the sum at each destination, in their order. Rows come back with distinct indices.
Aggregation: TypeAlias = Callable[[Reduction], list[Value]]


# --- values cut into pieces, which are summed in different places -----------------------------------------

FEW_PIECES = 8
"""The most pieces of which each may be as small as it gets."""
LEAST_BYTES = 1 << 10
"""The fewest bytes of a piece, on average, if there are more: every clone sends each by itself."""


def pieces_for(reduction: Reduction) -> int:
    """Return into how many pieces values are cut at most, unless the spec says it: one for each clone."""
    value, clones = reduction.values[0], len(reduction.values)
    if isinstance(value, Rows):
        return clones
    return min(clones, max(FEW_PIECES, (value.bytes or 0) // LEAST_BYTES))


def cut(reduction: Reduction, rank: int, count: int) -> list[Value]:
    """Return at most `count` pieces of the value of a clone: ranges of its elements, or rows by remainders.

    The values of all clones are cut in the same way.

    Args:
        reduction: What is summed.
        rank: Which clone it is.
        count: The most pieces.
    """
    writer, value, home = reduction.writer, reduction.values[rank], reduction.homes[rank]
    scope = reduction.inner(f"cut_{rank}")
    if isinstance(value, Rows):
        return [*deal_rows(writer, scope, value, count, home)]
    assert value.elements is not None
    sizes = range_lengths(value.elements, count)
    flat = writer.reshape(f"{scope}/flat", value, [-1], home)
    return [*writer.split(f"{scope}/cut", flat, sizes, 0, home)] if len(sizes) > 1 else [flat]


def glue(reduction: Reduction, destination: int, pieces: Sequence[Value]) -> Value:
    """Return the value of which `cut` made pieces.

    Args:
        reduction: What is summed.
        destination: The number of the destination that gets the value.
        pieces: The pieces.
    """
    writer, like = reduction.writer, reduction.values[0]
    place, scope = reduction.destinations[destination], reduction.inner(f"glue_{destination}")
    if isinstance(like, Rows):
        return join_rows(writer, scope, cast("Sequence[Rows]", pieces), place)
    parts = cast("Sequence[Tensor]", pieces)  # of which there may be millions
    flat = writer.concat(f"{scope}/joined", parts, 0, place) if len(parts) > 1 else parts[0]
    assert like.known_shape is not None
    return writer.reshape(f"{scope}/whole", flat, like.known_shape, place)
