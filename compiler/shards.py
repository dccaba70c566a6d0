"""Pieces of a variable: contiguous ranges along one axis, whose sizes differ by at most one row."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from attrs import evolve, frozen


@frozen
class Shard:
    """A piece of a variable.

    Attributes:
        of: The name of the whole variable.
        number: The number of the piece, from 0.
        count: The number of all pieces.
        axis: The axis along which the variable is cut.
        start: The index along the axis at which the piece begins.
        size: The length of the piece along the axis, in rows.
        whole: The shape of the whole variable.
    """

    of: str
    number: int
    count: int
    axis: int
    start: int
    size: int
    whole: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the piece."""
        return f"{self.of}/shard_{self.number}"

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the piece."""
        return (*self.whole[: self.axis], self.size, *self.whole[self.axis + 1 :])

    @property
    def stop(self) -> int:
        """The index along the axis before which the piece ends."""
        return self.start + self.size

    @property
    def index(self) -> tuple[slice, ...]:
        """The index that takes the piece from an array of the whole variable."""
        return (*(slice(None),) * self.axis, slice(self.start, self.stop))

    def of_slot(self, slot: str) -> Shard:
        """Return the same piece of a slot of the variable's shape; `slot` is the name of the whole slot."""
        return evolve(self, of=slot)


def range_lengths(size: int, count: int) -> list[int]:
    """Return the lengths of at most `count` ranges of `size` elements, as equal as possible, none empty."""
    count = max(1, min(size, count))
    return [size // count + (at < size % count) for at in range(count)]


def cut(
    name: str, shape: Sequence[int], size: int, count: int, *, axis: int = 0, least: int = 0
) -> tuple[Shard, ...]:
    """Return the pieces of a variable; nothing if it stays whole.

    Args:
        name: The name of the variable.
        shape: Its shape, which has the axis, unless it is a number, which cannot be cut.
        size: Its bytes.
        count: The most pieces.
        axis: The axis along which it is cut.
        least: The fewest bytes of a piece. It is kept on average, because pieces may differ by a row.
    """
    if not prod(shape) or axis >= len(shape):
        return ()
    fit = count if least == 0 else size // least
    lengths = range_lengths(shape[axis], max(1, min(count, fit)))
    if len(lengths) == 1:
        return ()
    starts = [sum(lengths[:at]) for at in range(len(lengths))]
    return tuple(
        Shard(name, at, len(lengths), axis, start, length, tuple(shape))
        for at, (start, length) in enumerate(zip(starts, lengths, strict=True))
    )
