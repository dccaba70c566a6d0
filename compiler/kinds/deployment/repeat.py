"""Repeat what is of one task or clone for all of a grid, in the order in which a compiler writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeAlias, TypeVar

from compiler.kinds.deployment.grid import Grid, Spot

T = TypeVar("T")
Placed: TypeAlias = tuple[Spot, T]


def repeated(
    things: Iterable[Placed[T]], grid: Grid, chosen: Callable[[T], bool] = lambda _: True
) -> Iterator[tuple[T, int, int]]:
    """Yield each thing with the task and the clone for which it is there.

    Things without a place are there once. In between, the compiler goes over the tasks, perhaps several
    times, and on each over its clones. A new round begins when it goes back to an earlier task.

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
    last: int | None = None
    for spot, thing in things:
        task = None if spot == Spot() else spot.host or 0
        if found and ((task is None) != (last is None) or (task or 0) < (last or 0)):
            yield found
            found = []
        found.append((spot, thing))
        last = task
    if found:
        yield found
