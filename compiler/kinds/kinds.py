"""The records of a map by kinds: things that are alike in many clones or tasks, with the range of these."""

from __future__ import annotations

from attrs import field, frozen

from compiler.kinds.grid import MapGrid, Spot, which
from compiler.mapping.records import (
    DeviceTime,
    LinkTime,
    MapClone,
    MapDevice,
    MapOp,
    MapPathPart,
    MapSlot,
    MapTransfer,
    MapVariable,
)
from dsl.files.typed_json import NAME, Count


@frozen
class MapRange:
    """Numbers from a first to a last one.

    Attributes:
        first: The first number, counted from 0.
        last: The last number, which is included.
    """

    first: Count
    last: Count


@frozen
class MapKind:
    """A kind of things: for which tasks and clones they are there.

    Attributes:
        tasks: The tasks, or None for what is there once.
        clones: The clones on each of these tasks, by their numbers on the task, or None for what the clones
            of a task share.
        count: How many of a thing there are.
    """

    tasks: MapRange | None
    clones: MapRange | None
    count: Count

    @classmethod
    def of(cls, spot: Spot, grid: MapGrid) -> MapKind:
        """Return the kind of what is at a place in a grid."""
        hosts, groups = which(spot.host, grid.hosts), which(spot.group, grid.groups)
        return cls(
            None if spot.host is None else MapRange(hosts[0], hosts[-1]),
            None if spot.group is None else MapRange(groups[0], groups[-1]),
            len(hosts) * len(groups),
        )

    @property
    def spot(self) -> Spot:
        """Its place: 0 for the first task or clone, 1 for all others."""
        return Spot(*(None if each is None else min(each.first, 1) for each in (self.tasks, self.clones)))

    @property
    def hosts(self) -> range:
        """Its tasks; 0 stands for what is of none."""
        return _numbers(self.tasks)

    @property
    def groups(self) -> range:
        """Its clones on each task; 0 stands for what is of none."""
        return _numbers(self.clones)


def _numbers(given: MapRange | None) -> range:
    return range(1) if given is None else range(given.first, given.last + 1)


@frozen
class DeviceKind:
    """Devices that are alike.

    Attributes:
        of: The number of their kind.
        like: What is true of each. Its texts have places for numbers.
    """

    of: Count
    like: MapDevice


@frozen
class CloneKind:
    """Towers that are alike.

    Attributes:
        of: The number of their kind.
        like: What is true of each. Its texts have places for numbers, and `index` is that of the first.
    """

    of: Count
    like: MapClone


@frozen
class CopyKind:
    """Copies of a variable, one for each clone.

    Attributes:
        of: The number of their kind.
        device: The name of the device of each, with places for numbers.
    """

    of: Count
    device: str


@frozen
class SlotKind:
    """Slots of a variable, or of its copies, that are alike.

    Attributes:
        of: The number of their kind.
        like: What is true of each. Its texts have places for numbers.
    """

    of: Count
    like: MapSlot


@frozen
class VariableKind:
    """A variable.

    Attributes:
        like: The variable, without its copies and slots. Its texts are as they are.
        copies: Its copies, if it is replicated.
        slots: Its slots.
    """

    like: MapVariable
    copies: tuple[CopyKind, ...]
    slots: tuple[SlotKind, ...]


@frozen
class OpKind:
    """Ops that are alike.

    Attributes:
        of: The number of their kind.
        like: What is true of each. Its texts have places for numbers, and `clone` is that of the first.
    """

    of: Count
    like: MapOp


@frozen
class TransferKind:
    """Pairs of devices between which a step sends the same.

    Attributes:
        of: The number of their kind.
        like: What is true of each. Its texts have places for numbers. `largest` may have more tensors than
            version 1 has: the first five by size and name are the largest.
    """

    of: Count
    like: MapTransfer


@frozen
class BusyKind:
    """How busy devices are that are alike.

    Attributes:
        of: The number of their kind.
        like: The mean of them. Its texts have places for numbers.
    """

    of: Count
    like: DeviceTime


@frozen
class LinkTimeKind:
    """How busy links are that are alike.

    Attributes:
        of: The number of their kind.
        like: The mean of them. Its texts have places for numbers.
    """

    of: Count
    like: LinkTime


@frozen
class KindTime:
    """The forecast of the time of a step, as `MapTime` has it.

    Attributes:
        seconds: The time of a step.
        estimate: Whether it is by the table of hardware instead of measured ops.
        measured: The part of the time of all ops that is of ops in sizes that were measured, from 0 to 1.
        source: The file of the profile, or the name of the hardware.
        device_kinds: How busy the devices are.
        link_kinds: How busy the links are that carry tensors.
        by_scope: The critical path by layers and other parts of the step, the longest first.
        by_rule: The critical path by the rules that placed what is on it, the longest first.
        bubble: The part of the time, from 0 to 1, that the stages of pipelines wait; None if there are none.
    """

    seconds: float
    estimate: bool
    measured: float
    source: str
    device_kinds: tuple[BusyKind, ...] = field(metadata={NAME: "devices"})
    link_kinds: tuple[LinkTimeKind, ...] = field(metadata={NAME: "links"})
    by_scope: tuple[MapPathPart, ...]
    by_rule: tuple[MapPathPart, ...]
    bubble: float | None = None
