"""Spread variables over devices by size.

Longest processing time first (Graham, Bounds on multiprocessing timing anomalies, 1969): the largest variable
goes to the least loaded device, which is at most 4/3 of the best split. Then variables of the fullest device
are exchanged with others as long as that helps. The result does not depend on the order in which variables
were created.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from attrs import define

from compiler.topology import Device

ROUNDS_PER_VARIABLE = 4  # further exchanges have never been found to help


def spread_by_bytes(
    names: Sequence[str], weights: Sequence[int], devices: Sequence[Device], load: Mapping[Device, int]
) -> list[Device]:
    """Return a device for each variable; `load` has the bytes that devices hold already."""
    shelves = [_Shelf(device, load.get(device, 0)) for device in dict.fromkeys(devices)]
    order = sorted(range(len(names)), key=lambda at: (-weights[at], names[at]))
    for at in order:
        min(shelves, key=lambda each: each.load).put((weights[at], names[at], at))
    for _ in range(ROUNDS_PER_VARIABLE * len(names)):
        if not _relieve(max(shelves, key=lambda each: each.load), shelves):
            break
    chosen = {at: shelf.device for shelf in shelves for _, _, at in shelf.items}
    return [chosen[at] for at in range(len(names))]


_Item = tuple[int, str, int]  # weight, name, place in the order of creation
_NOTHING: _Item = (0, "", -1)


@define
class _Shelf:
    """A device and what is on it."""

    device: Device
    load: int
    items: tuple[_Item, ...] = ()

    def put(self, item: _Item) -> None:
        if item is not _NOTHING:
            self.items = tuple(sorted((*self.items, item)))
            self.load += item[0]

    def take(self, item: _Item) -> None:
        if item is not _NOTHING:
            self.items = tuple(each for each in self.items if each is not item)
            self.load -= item[0]


def _relieve(full: _Shelf, shelves: Sequence[_Shelf]) -> bool:
    """Move one item off the fullest shelf, or exchange it for a lighter one, if that lowers the peak."""
    best: tuple[int, _Shelf, _Item, _Item] | None = None
    for other in shelves:
        if other is full:
            continue
        for mine, theirs in _exchanges(full, other):
            difference = mine[0] - theirs[0]
            peak = max(full.load - difference, other.load + difference)
            if peak < (full.load if best is None else best[0]):
                best = (peak, other, mine, theirs)
    if best is None:
        return False
    _, other, mine, theirs = best
    full.take(mine)
    other.take(theirs)
    full.put(theirs)
    other.put(mine)
    return True


def _exchanges(full: _Shelf, other: _Shelf) -> list[tuple[_Item, _Item]]:
    """Return for each item of `full` those of `other` whose exchange brings the two loads nearest."""
    half = (full.load - other.load) // 2
    theirs = (_NOTHING, *other.items)
    lengths = [each[0] for each in theirs]
    pairs = []
    for mine in full.items:
        at = bisect_left(lengths, mine[0] - half)
        pairs += [(mine, theirs[near]) for near in (at - 1, at) if 0 <= near < len(theirs)]
    return pairs
