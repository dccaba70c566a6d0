"""Tensors of a few clones, counted and named for many."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import pairwise, product

from attrs import evolve, frozen

from compiler.kinds.grid import MapGrid, Spot, which
from compiler.kinds.patterns import Pattern, Patterns
from compiler.kinds.templates import Numbers, Template
from compiler.mapping.records import MapTensor

LARGEST = 5
"""The tensors that a map names of a link or a device."""


@frozen
class Orbit:
    """Tensors that have the same name for each of several clones.

    Attributes:
        pattern: Their name.
        bytes: The bytes of each.
        spot: Their place, with 1 for all tasks or clones but the first.
        beside: Whether they are of the task of that to which they belong, and also of its clone.
        missing: The number of those that are not there.
        fixed: How many there are, if that does not grow with the number of clones.
    """

    pattern: Pattern
    bytes: int
    spot: Spot
    beside: tuple[bool, bool]
    missing: int
    fixed: int | None = None

    def count(self, grid: MapGrid) -> int:
        """Return how many there are, for each thing to which they belong."""
        if self.fixed is not None:
            return self.fixed
        hosts = 1 if self.beside[0] else len(which(self.spot.host, grid.hosts))
        return hosts * (1 if self.beside[1] else len(which(self.spot.group, grid.groups))) - self.missing

    def templates(self, grid: MapGrid) -> Iterator[Template]:
        """Yield their names for all things of a kind to which they belong; those not there are the last."""
        hosts = (None,) if self.beside[0] else which(self.spot.host, grid.hosts)
        groups = (None,) if self.beside[1] else which(self.spot.group, grid.groups)
        everything = list(product(hosts, groups))
        for host, group in everything[: self.count(grid)]:
            yield self.pattern.partly(grid, host, group)


def orbits_of(tensors: Iterable[MapTensor], here: Spot, patterns: Patterns) -> list[Orbit]:
    """Return tensors of a few clones by their names in each, the largest first."""
    few = Numbers(patterns.grid)
    families: dict[tuple[str, int, Spot, tuple[bool, bool]], list[Pattern]] = {}
    for each in tensors:
        pattern = patterns.of(each.name)
        own = pattern.spot
        spot = Spot(*(None if at is None else min(at, 1) for at in (own.host, own.group)))
        host = own.host is not None and own.host == here.host
        beside = (host, host and own.group is not None and own.group == here.group)
        name = pattern.at(few, own, spot.host or 0, spot.group or 0)
        families.setdefault((name, each.bytes, spot, beside), []).append(pattern)
    found = []
    for (_, size, spot, beside), members in families.items():
        whole = Orbit(members[0], size, spot, beside, 0)
        found.append(Orbit(members[0], size, spot, beside, whole.count(patterns.grid) - len(members)))
    return sorted(found, key=lambda each: -each.bytes)


def compared(orbits: Iterable[Orbit], fewer: Iterable[Orbit], grids: tuple[MapGrid, MapGrid]) -> list[Orbit]:
    """Return tensors of some clones, with what fewer clones say of those of which some are not there.

    If only one of three workers has a tensor at a moment, and one of two, then one of many has it.
    """
    known = {_alike(each): each.count(grids[0]) for each in fewer}
    found = []
    for each in orbits:
        there = each.count(grids[1])
        found.append(evolve(each, fixed=there) if each.missing and known.get(_alike(each)) == there else each)
    return found


def _alike(orbit: Orbit) -> Hashable:
    """Return what the tensors of fewer clones have in common with the same tensors of more."""
    return orbit.pattern.parts, orbit.bytes, orbit.spot, orbit.beside


def largest_of(orbits: list[Orbit], grid: MapGrid) -> tuple[Orbit, ...]:
    """Return those of the orbits, in their order, from which the largest tensors are."""
    seen = 0
    found: list[Orbit] = []
    for each in orbits:
        if seen >= LARGEST and each.bytes < found[-1].bytes:
            break
        found.append(each)
        seen += each.count(grid)
    return tuple(found)


def named(orbits: Iterable[Orbit], grid: MapGrid) -> tuple[MapTensor, ...]:
    """Return the largest tensors of all things of a kind, with their names as templates.

    Among tensors of one size those with the first names are named, and which these are may depend on the
    numbers in them. Then there are more, of which `largest_at` takes the first.
    """
    numbers = Numbers(grid)
    found = [(-each.bytes, template) for each in orbits for template in each.templates(grid)]
    fixed = [each for each in found if _is_fixed(each[1])]
    placed = [each for each in found if not _is_fixed(each[1])]
    first = (min(1, grid.hosts - 1), min(1, grid.groups - 1))

    def key(each: tuple[int, Template]) -> tuple[int, str]:
        return each[0], each[1].at(numbers, *first)

    ranked = sorted(nsmallest(LARGEST, fixed, key=key) + placed, key=key)
    pairs = [*pairwise(ranked[:LARGEST]), *((ranked[LARGEST - 1], each) for each in ranked[LARGEST:])]
    if all(one[0] != other[0] or one[1].is_ordered_as(other[1]) for one, other in pairs):
        ranked = ranked[:LARGEST]
    return tuple(MapTensor(template.text(), -size) for size, template in ranked)


def _is_fixed(template: Template) -> bool:
    return all(isinstance(each, str) for each in template.parts)


def largest_at(
    tensors: Sequence[tuple[int, Template]], numbers: Numbers, host: int, group: int
) -> tuple[MapTensor, ...]:
    """Return the largest tensors of one thing of a kind.

    Args:
        tensors: Tensors of the kind: the bytes of each, and its name.
        numbers: The numbers of the grid.
        host: The task of the thing.
        group: Its clone on the task.
    """
    everything = [(-size, template.at(numbers, host, group)) for size, template in tensors]
    return tuple(MapTensor(name, -size) for size, name in nsmallest(LARGEST, everything))
