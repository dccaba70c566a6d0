"""Repeat what is of one task or clone for all of a grid, in the order in which a compiler writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias, TypeVar

from attrs import define

from compiler.kinds.deployment.grid import MapGrid, Spot

T = TypeVar("T")
Placed: TypeAlias = tuple[Spot, T]


def repeated(
    things: Iterable[Placed[T]], grid: MapGrid, chosen: Callable[[T], bool] = lambda _: True
) -> Iterator[tuple[T, int, int]]:
    """Yield each thing with the task and the clone for which it is there.

    Things without a place are there once. In between, the compiler goes over the tasks, perhaps several
    times, and on each over its clones. A new round begins when it goes back to an earlier task, or when it
    goes over the clones of a later task more often than over those of the first.

    Args:
        things: The things of a deployment with few clones, with their places, in its order.
        grid: The grid of all clones.
        chosen: Whether a thing is wanted. The others are left out, and do not change the order of those.
    """
    for round_ in _rounds(things):
        if round_[0][0] == Spot():
            yield from ((thing, 0, 0) for _, thing in round_ if chosen(thing))
            continue
        for task, of_task in groupby(round_, lambda each: each[0].host or 0):
            blocks = [
                (group, [thing for _, thing in block if chosen(thing)])
                for group, block in groupby(of_task, lambda each: each[0].group)
            ]
            blocks = [each for each in blocks if each[1]]
            for host in which(task, grid.hosts):
                for group, block in blocks:
                    for number in which(group, grid.groups):
                        for thing in block:
                            yield thing, host, number


def which(number: int | None, count: int) -> Sequence[int]:
    """Return the tasks or clones for which one stands: only itself for the first, else all others.

    Args:
        number: The number of the task or clone in the small deployment; None for what its clones share, which
            is there once.
        count: The number of all tasks, or of all clones on a task.
    """
    return range(1, count) if number else (0,)


def _rounds(things: Iterable[Placed[T]]) -> Iterator[list[Placed[T]]]:
    found: list[Placed[T]] = []
    last = _Last()
    for spot, thing in things:
        if last.begins_anew(spot) and found:
            yield found
            found = []
        found.append((spot, thing))
    if found:
        yield found


@define
class _Last:
    """What was last in a round.

    Attributes:
        task: The task, or None for what is of none.
        clone: The clone on the task, or None if there was none.
        passes: How often the clones of the task were gone over.
        most: How often those of the task before were; None for the first task of a round, and 1 for all but
            the first of the graph.
    """

    task: int | None = None
    clone: int | None = None
    passes: int = 1
    most: int | None = None

    def begins_anew(self, spot: Spot) -> bool:
        """Whether a thing at a place begins a round, or is in none; notes it as the last.

        If the clones of a later task are gone over more often than those of the first, the first has nothing
        of that kind, and a round of the others begins.
        """
        task = None if spot == Spot() else spot.host or 0
        if (task is None) != (self.task is None) or (task or 0) < (self.task or 0):
            self._begin(task, spot.group)
            return True
        if task != self.task:
            self.most, self.task, self.clone, self.passes = self.passes, task, None, 1
        if spot.group is not None:
            if self.clone is not None and spot.group < self.clone:
                if self.most is not None and self.passes >= self.most:
                    self._begin(task, spot.group)
                    return True
                self.passes += 1
            self.clone = spot.group
        return False

    def _begin(self, task: int | None, clone: int | None) -> None:
        self.task, self.clone, self.passes, self.most = task, clone, 1, 1 if task else None
