"""Tensors of a few clones, counted and named for many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from itertools import product

from attrs import frozen

from compiler.kinds.grid import Grid, Spot
from compiler.kinds.patterns import Numbers, Pattern, Patterns
from compiler.kinds.repeat import which
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
    """

    pattern: Pattern
    bytes: int
    spot: Spot
    beside: tuple[bool, bool]
    missing: int

    def count(self, grid: Grid) -> int:
        """Return how many there are, for each thing to which they belong."""
        hosts = 1 if self.beside[0] else len(which(self.spot.host, grid.hosts))
        return hosts * (1 if self.beside[1] else len(which(self.spot.group, grid.groups))) - self.missing

    def names(self, host: int, group: int, numbers: Numbers) -> Iterator[str]:
        """Yield their names; those that are not there are the last.

        Args:
            host: The task of that to which they belong.
            group: Its clone on the task.
            numbers: The numbers of the grid.
        """
        grid = numbers.grid
        hosts = (host,) if self.beside[0] else which(self.spot.host, grid.hosts)
        groups = (group,) if self.beside[1] else which(self.spot.group, grid.groups)
        everything = list(product(hosts, groups))
        for at, number in everything[: len(everything) - self.missing]:
            yield self.pattern.at(numbers, self.pattern.spot, at, number)


def orbits_of(tensors: Iterable[MapTensor], here: Spot, patterns: Patterns) -> list[Orbit]:
    """Return tensors of a few clones by their names in each, the largest first.

    Args:
        tensors: The tensors.
        here: The place of that to which they belong.
        patterns: The names in the graph of the few clones.
    """
    few = Numbers(patterns.grid)
    families: dict[tuple[str, int, Spot, tuple[bool, bool]], list[Pattern]] = {}
    for each in tensors:
        pattern = patterns.of_tensor(each.name)
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


def largest_of(orbits: list[Orbit], grid: Grid) -> tuple[Orbit, ...]:
    """Return those of the orbits, in their order, from which the largest tensors are."""
    seen = 0
    found: list[Orbit] = []
    for each in orbits:
        if seen >= LARGEST and each.bytes < found[-1].bytes:
            break
        found.append(each)
        seen += each.count(grid)
    return tuple(found)


def named(orbits: Iterable[Orbit], host: int, group: int, numbers: Numbers) -> tuple[MapTensor, ...]:
    """Return the largest tensors, by bytes and name; the arguments are those of `Orbit.names`."""
    everything = ((-each.bytes, name) for each in orbits for name in each.names(host, group, numbers))
    return tuple(MapTensor(name, -size) for size, name in nsmallest(LARGEST, everything))
