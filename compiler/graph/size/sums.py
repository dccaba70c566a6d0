"""The ops that each aggregation writes for a sum, counted without writing them.

The numbers are those of the functions in `compiler/step/sums/`, or fewer. Constants that ops take, such
as shapes and axes, are ops of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from compiler.graph.size.written import Written
from compiler.step.sums.pack import fill
from compiler.topology import Device
from dsl import ir
from dsl.schema import arguments_of


@frozen
class Sum:
    """Values of the clones that are going to be summed.

    Attributes:
        name: The name of the sum, which is a part of the names of its ops.
        elements: The number of elements of a value, or None if its rows are summed.
        bytes: The bytes of a value, or None for rows.
        dtype: The name of the type of the elements.
        homes: The device on which the value of each clone is.
        destinations: The devices that need the sum.
        owner: The clone that alone needs the sum, if the sum is that of its part of a gradient.
    """

    name: str
    elements: int | None
    bytes: int | None
    dtype: str
    homes: tuple[Device, ...]
    destinations: tuple[Device, ...]
    owner: int | None = None

    @property
    def clones(self) -> int:
        """The number of values."""
        return len(self.homes)

    @property
    def tensors(self) -> int:
        """The tensors of a value: rows have their numbers beside them."""
        return 2 if self.elements is None else 1

    def pieces(self, wanted: int) -> int:
        """Return into how many pieces a value is cut; small ones have fewer than are wanted."""
        return wanted if self.elements is None else max(1, min(self.elements, wanted))


def bytes_of_sums(
    sums: Sequence[Sum], update: ir.Update, length_of: Callable[[Device], int]
) -> tuple[int, int]:
    """Return the ops that the sums of a step take at least, and their bytes.

    Args:
        sums: The sums, in the order in which they are made.
        update: The block `update`.
        length_of: Returns the length of the name of a device.
    """
    ops = size = 0
    for each, members in _travelling(sums, update.pack):
        written = written_for(each, update.aggregate)
        if members > 1:
            written += _packed(members).times(each.clones) + _unpacked(members).times(len(each.destinations))
        device = min(length_of(device) for device in {*each.homes, *each.destinations})
        ops, size = ops + written.ops, size + written.bytes_in(f"aggregate/{each.name}/", device)
    return ops, size


def _travelling(sums: Sequence[Sum], pack: int | None) -> list[tuple[Sum, int]]:
    """Return what is summed as one, each with the number of its members."""
    if pack is None or not sums or sums[0].clones == 1:
        return [(each, 1) for each in sums]
    kinds = [(each.dtype, each.homes, each.destinations, each.owner) for each in sums]
    found = []
    for number, members in enumerate(fill([each.bytes for each in sums], kinds, pack)):
        first = sums[members[0]]
        if len(members) > 1:
            elements = sum(sums[at].elements or 0 for at in members)
            first = Sum(
                f"bucket_{number}", elements, None, first.dtype, first.homes, first.destinations, first.owner
            )
        found.append((first, len(members)))
    return found


def _packed(members: int) -> Written:
    """What joins the members of a bucket on one clone: each is flattened."""
    return Written(2 * members + 2, 2 * members + 1)


def _unpacked(members: int) -> Written:
    """What parts the sum of a bucket at one destination: each member gets its shape."""
    return Written(2 * members + 3, 2 * members + 3)


def written_for(each: Sum, call: ir.Call) -> Written:
    """Return what an aggregation writes for a sum.

    Args:
        each: The sum.
        call: The call of the aggregation in the spec.
    """
    return WRITTEN[call.name](each, **arguments_of("aggregation", call)) if each.clones > 1 else Written()


def _added(each: Sum, size: int | None = None) -> Written:
    """One op that adds all, and a copy for each device that has not made the sum."""
    del size  # of groups: their own sums come on top
    return _add(each, inside=0) + _copies(each)


def _in_pairs(each: Sum) -> Written:
    return _add(each, inside=0).times(each.clones - 1) + _copies(each)


def _reduced(each: Sum) -> Written:
    """An op on each device."""
    return Written(len(set(each.homes)))


def _ring(each: Sum) -> Written:
    rounds = each.clones - 1
    if each.owner is not None:  # passed on
        return _add(each, inside=0) + _add(each, inside=1).times(rounds - 1)
    pieces = each.pieces(each.clones)
    written = _cut(each, pieces).times(each.clones)
    written += _add(each, inside=2).times(pieces * rounds)
    if len(each.destinations) > 1:
        for rank in range(each.clones):  # a piece is there before the last round, and is not copied
            if each.homes[rank] != each.homes[rank - 1]:
                copied = pieces - ((rank + 1) % each.clones < pieces)
                written += Written(1, 1).times(copied * each.tensors)
    return written + _glued(each, pieces).times(len(each.destinations))


def _shuffled(each: Sum, shards: int | None = None) -> Written:
    if each.owner is not None:
        return _add(each, inside=0)
    pieces = each.pieces(shards or each.clones)
    written = _cut(each, pieces).times(each.clones)
    written += _add(each, inside=each.clones).times(pieces)
    return written + _glued(each, pieces).times(len(each.destinations))


WRITTEN: dict[str, Callable[..., Written]] = {
    "add_n": _added,
    "tree": _in_pairs,
    "hierarchical": _added,
    "ring": _ring,
    "shuffle": _shuffled,
    "collective": _reduced,
}
"""What each aggregation writes; arguments beyond the sum are those of its call."""


def _add(each: Sum, inside: int) -> Written:
    """One sum of some values, of which some are tensors of the scope.

    Rows and their numbers are joined, each along an axis; equal rows are found and summed, and their number
    is taken from a shape.
    """
    if each.elements is not None:
        return Written(1, inside)
    return Written(11, 11 + 2 * inside)


def _copies(each: Sum) -> Written:
    return Written(1).times((len(set(each.destinations)) - 1) * each.tensors)


def _cut(each: Sum, pieces: int) -> Written:
    """The value of one clone is flattened and cut; rows are dealt out by the remainders of their numbers."""
    if each.elements is None:
        return Written(4, 3)
    return Written(5, 4) if pieces > 1 else Written(2, 1)


def _glued(each: Sum, pieces: int) -> Written:
    """The pieces are joined at one destination, and get their shape; rows and their numbers are joined."""
    if each.elements is None:
        return Written(4, 2 * pieces + 2)
    return Written(4, pieces + 3) if pieces > 1 else Written(2, 2)
