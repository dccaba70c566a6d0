"""Pairs of clones are summed, then pairs of the sums, in log2 K levels."""

from __future__ import annotations

from compiler.step.record import Value
from compiler.step.sums.base import Reduction


def tree(reduction: Reduction) -> list[Value]:
    """Sum each pair on the device of its first value; the last pair is summed at a single destination.

    Copies of the sum are sent down the same tree.
    """
    sums, homes = list(reduction.values), list(reduction.homes)
    ranks = list(range(len(sums)))
    if len(ranks) == 1:
        return [reduction.add(reduction.destinations[0], sums, "rows")]
    levels: list[list[tuple[int, int]]] = []
    while len(ranks) > 1:
        pairs = list(zip(ranks[::2], ranks[1::2], strict=False))
        for first, second in pairs:
            last = len(ranks) == 2  # noqa: PLR2004  # the last pair
            place = reduction.one_destination if last else None
            sums[first] = reduction.add(
                place or homes[first], [sums[first], sums[second]], f"level_{len(levels)}/pair_{first}"
            )
        levels.append(pairs)
        ranks = ranks[::2]
    if reduction.one_destination is not None:
        return [sums[0]]
    return _spread(reduction, sums[0], levels)


def _spread(reduction: Reduction, total: Value, levels: list[list[tuple[int, int]]]) -> list[Value]:
    places = reduction.destinations
    found = {0: reduction.copy(places[0], total, reduction.homes[0], "copy")}
    for pairs in reversed(levels):
        for first, second in pairs:
            found[second] = reduction.copy(places[second], found[first], places[first], "copy")
    return [found[rank] for rank in range(len(places))]
