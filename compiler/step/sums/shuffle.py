"""Values are cut into shards. Shards of one number are summed on one device; the sums are joined again."""

from __future__ import annotations

from compiler.step.record import Value
from compiler.step.sums.base import Reduction, cut, glue, pieces_for


def shuffle(reduction: Reduction, shards: int | None = None) -> list[Value]:
    """Sum `shards` ranges, by default one for each clone or fewer, on the devices of the clones in turn.

    If each clone needs the sum of its own part, the parts are the ranges, and each is summed by its clone.

    Args:
        shards: The number of ranges into which each value is cut, or None for `pieces_for`.

    Returns:
        The sum on each of the devices that need it, in their order.
    """
    size = len(reduction.values)
    if reduction.owner is not None:
        return [reduction.add(reduction.destinations[0], reduction.values, "sum")]
    if size == 1:
        return [reduction.add(reduction.destinations[0], reduction.values, "rows")]
    count = shards or pieces_for(reduction)
    pieces = [cut(reduction, rank, count) for rank in range(size)]
    sums = [
        reduction.add(reduction.homes[(reduction.number + at) % size], shard, f"shard_{at}")
        for at, shard in enumerate(zip(*pieces, strict=True))
    ]
    return [glue(reduction, at, sums) for at in range(len(reduction.destinations))]
