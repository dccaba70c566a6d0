"""Pieces of a variable: contiguous ranges along one axis, whose sizes differ by at most one row.

A flat piece is a range of the variable's elements in their order, whatever its axes are, so that the sizes of
pieces differ by at most one element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from attrs import frozen


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
        flat: Whether the variable is cut as a line of elements, of which `axis` is the only axis.
    """

    of: str
    number: int
    count: int
    axis: int
    start: int
    size: int
    whole: tuple[int, ...]
    flat: bool = False

    @property
    def name(self) -> str:
        """The name of the piece."""
        return f"{self.of}/shard_{self.number}"

    @property
    def cut_shape(self) -> tuple[int, ...]:
        """The shape in which the whole variable is cut: its own, or that of a line of its elements."""
        return (prod(self.whole),) if self.flat else self.whole

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the piece."""
        return (*self.cut_shape[: self.axis], self.size, *self.cut_shape[self.axis + 1 :])

    @property
    def stop(self) -> int:
        """The index along the axis before which the piece ends."""
        return self.start + self.size

    @property
    def index(self) -> tuple[slice, ...]:
        """The index that takes the piece from an array of the whole variable in the shape `cut_shape`."""
        return (*(slice(None),) * self.axis, slice(self.start, self.stop))


def range_lengths(size: int, count: int) -> list[int]:
    """Return the lengths of at most `count` ranges of `size` elements, as equal as possible, none empty.

    Args:
        size: The number of elements.
        count: The number of ranges that are wanted.
    """
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


def parts_for(
    name: str, shape: Sequence[int], load: Sequence[int], *, by_rows: bool = False
) -> tuple[tuple[int, Shard], ...]:
    """Return the part of a variable for each of several owners, with the number of the owner.

    The parts are in the order of the owners. Owners that have the least so far get the elements that are left
    if the variable does not divide, so that a variable with fewer elements than owners has no part for some.

    Args:
        name: The name of the variable.
        shape: Its shape.
        load: What each owner has so far.
        by_rows: Whether parts consist of whole rows, because some gradient of the variable does.
    """
    whole = tuple(shape)
    size = whole[0] if by_rows else prod(whole)
    each, left = divmod(size, len(load))
    first = set(sorted(range(len(load)), key=lambda owner: (load[owner], owner))[:left])
    lengths = [each + (owner in first) for owner in range(len(load))]
    owners = [owner for owner, length in enumerate(lengths) if length]
    starts = [sum(lengths[:owner]) for owner in owners]
    return tuple(
        (owner, Shard(name, at, len(owners), 0, start, lengths[owner], whole, flat=not by_rows))
        for at, (owner, start) in enumerate(zip(owners, starts, strict=True))
    )


def blocks(shape: Sequence[int], start: int, stop: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the blocks that make up a range of the elements of an array in their order.

    A block is an index along each axis at which it begins, and its length along each axis.

    Args:
        shape: The shape of the array.
        start: The number of the first element.
        stop: The number after the last element.
    """
    if len(shape) <= 1:
        yield ((start,), (stop - start,)) if shape else ((), ())
        return
    rest = tuple(shape[1:])
    row = prod(rest)
    first, last = start // row, stop // row
    if start % row:
        for begin, size in blocks(rest, start % row, min(row, stop - first * row)):
            yield (first, *begin), (1, *size)
        first += 1
    if first < last:
        yield (first, *(0,) * len(rest)), (last - first, *rest)
    if first <= last and stop % row:
        for begin, size in blocks(rest, 0, stop % row):
            yield (last, *begin), (1, *size)
