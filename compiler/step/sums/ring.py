"""A ring: every clone passes pieces to the next one, so that all send and receive the same amount."""

from __future__ import annotations

from compiler.step.record import Value
from compiler.step.sums.base import Reduction, cut, glue, pieces_for


def ring(reduction: Reduction) -> list[Value]:
    """Cut every value into K pieces; add for K - 1 rounds, then copy for K - 1 rounds.

    In every round each clone receives one piece from the clone before it, 2(K - 1)/K of a value in all. If
    only one place needs the sum, the pieces are gathered there instead of being copied. If each clone needs
    the sum of its own part, the part is not cut again: it is passed on and added until it is there.
    """
    size = len(reduction.values)
    if size == 1:
        return [reduction.add(reduction.destinations[0], reduction.values, "rows")]
    if reduction.owner is not None:
        return [_passed_on(reduction, reduction.owner)]
    count = pieces_for(reduction)
    # by number; small values have fewer pieces than there are clones
    pieces = [dict(enumerate(cut(reduction, rank, count))) for rank in range(size)]
    for tick in range(size - 1):
        for rank in range(size):
            piece, before = (rank - 1 - tick) % size, (rank - 1) % size
            if piece in pieces[rank]:
                addends = [pieces[before][piece], pieces[rank][piece]]
                name = f"tick_{tick}/add_{rank}"
                pieces[rank][piece] = reduction.add(reduction.homes[rank], addends, name)
    if reduction.one_destination is not None:
        return [glue(reduction, 0, [pieces[(piece - 1) % size][piece] for piece in sorted(pieces[0])])]
    return _copied(reduction, pieces)


def _passed_on(reduction: Reduction, owner: int) -> Value:
    """Return the sum that begins at the clone after the owner, and ends with the owner."""
    size = len(reduction.values)
    total = reduction.values[(owner + 1) % size]
    for tick in range(size - 1):
        rank = (owner + 2 + tick) % size
        place = reduction.destinations[0] if rank == owner else reduction.homes[rank]
        total = reduction.add(place, [total, reduction.values[rank]], f"tick_{tick}/add_{rank}")
    return total


def _copied(reduction: Reduction, pieces: list[dict[int, Value]]) -> list[Value]:
    size = len(pieces)
    for tick in range(size - 1):
        for rank in range(size):
            piece, before = (rank - tick) % size, (rank - 1) % size
            if piece in pieces[rank]:
                pieces[rank][piece] = reduction.copy(
                    reduction.homes[rank],
                    pieces[before][piece],
                    reduction.homes[before],
                    f"tick_{size - 1 + tick}/copy_{rank}",
                )
    return [
        glue(reduction, rank, [each[piece] for piece in sorted(each)]) for rank, each in enumerate(pieces)
    ]
