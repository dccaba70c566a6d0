"""The clones of a deployment as a grid: equally many on each task of a job, on devices of their own.

What is of one task or clone is repeated for all of a grid, in the order in which a compiler writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, TypeAlias, TypeVar

from attrs import define, evolve, field, frozen

from dsl.files.typed_json import NAME, Count


class NotAlikeError(Exception):
    """Something of a deployment does not follow from the same with fewer clones."""


@frozen
class Spot:
    """A place in a grid.

    Attributes:
        host: The number of the task, or None for what is not on a task with clones.
        group: The number of the clone on its task, or None for what the clones of a task share.
    """

    host: int | None = None
    group: int | None = None


NOWHERE = Spot()


@frozen
class MapGrid:
    """The clones as a grid: equally many on each task, on devices of their own.

    The clones are numbered by task, and on a task by device.

    Attributes:
        job: The job of the tasks that have clones, or None if all clones are on this machine.
        kind: The kind of the clones' devices.
        hosts: The number of tasks that have clones; 1 on this machine.
        groups: The number of clones on each task.
        members: The number of devices of each clone.
        sums: How many sums the clones of each task make of their gradients; 0 if clones are not summed by
            task.
    """

    job: str | None
    kind: Literal["gpu", "cpu"]
    hosts: Count = field(metadata={NAME: "tasks"})
    groups: Count = field(metadata={NAME: "clones"})
    members: Count = field(metadata={NAME: "devices"})
    sums: Count = 0

    @property
    def clones(self) -> int:
        """The number of all clones."""
        return self.hosts * self.groups

    def number(self, host: int, group: int) -> int:
        """Return the number of a clone."""
        return host * self.groups + group

    def number_of_sum(self, host: int, place: int) -> int:
        """Return the number of a sum among those of all tasks."""
        return host * self.sums + place

    def spot(self, clone: int) -> Spot:
        """Return the place of a clone."""
        return Spot(*divmod(clone, self.groups))

    def cut(self, hosts: int, groups: int) -> MapGrid:
        """Return the grid of a deployment that has fewer tasks, or fewer clones on each."""
        return evolve(self, hosts=min(self.hosts, hosts), groups=min(self.groups, groups))


# --- what is of one task or clone, for all of a grid -------------------------------------------------------


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
        if round_[0][0] == NOWHERE:
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
        task = None if spot == NOWHERE else spot.host or 0
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
