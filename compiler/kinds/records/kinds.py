"""The records of a map by kinds: things that are alike in many clones or tasks, with the range of these."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen

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
from dsl.files.typed_json import NAME, OPTIONAL, Count


@frozen
class MapGrid:
    """The clones as a grid: equally many on each task, on devices of their own.

    Attributes:
        job: The job of the tasks that have clones, or None if all clones are on this machine.
        kind: The kind of the clones' devices.
        tasks: The number of tasks that have clones; 1 on this machine.
        clones: The number of clones on each task.
        devices: The number of devices of each clone.
        sums: How many sums the clones of each task make of their gradients; 0 if clones are not summed by
            task.
    """

    job: str | None
    kind: Literal["gpu", "cpu"]
    tasks: Count
    clones: Count
    devices: Count
    sums: Count = 0


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
    bubble: float | None = field(default=None, metadata={OPTIONAL: True})
