"""The clones of a deployment as a grid: equally many on each task of a job, on devices of their own."""

from __future__ import annotations

from typing import Literal

from attrs import evolve, field, frozen

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
