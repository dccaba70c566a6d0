"""Values of clones that are cut, so that parts of one number can be summed, and joined again."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.shards import range_lengths
from compiler.step.record import Rows, Tensor, Value
from compiler.step.rows import deal_rows, join_rows
from compiler.step.sums.base import Reduction


def cut(reduction: Reduction, rank: int, count: int) -> list[Value]:
    """Return at most `count` pieces of the value of a clone: ranges of its elements, or rows by remainders.

    The values of all clones are cut in the same way.
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
    """Return the value of which `cut` made pieces."""
    writer, like = reduction.writer, reduction.values[0]
    place, scope = reduction.destinations[destination], reduction.inner(f"glue_{destination}")
    if isinstance(like, Rows):
        return join_rows(writer, scope, [each for each in pieces if isinstance(each, Rows)], place)
    parts = [each for each in pieces if isinstance(each, Tensor)]
    flat = writer.concat(f"{scope}/joined", parts, 0, place) if len(parts) > 1 else parts[0]
    assert like.known_shape is not None
    return writer.reshape(f"{scope}/whole", flat, like.known_shape, place)
