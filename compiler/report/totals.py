"""What each device of a placement map holds, sends and receives, and how full its memory is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from attrs import astuple, frozen

from compiler.figures import gathered
from compiler.kinds.records.kind_map import AnyMap
from compiler.mapping.records import MapDevice
from compiler.report import refs
from compiler.report.refs import Group


@frozen
class Totals:
    """The figures of a device, or the sums of several.

    Attributes:
        ops: The number of ops.
        variables: The bytes of variables.
        slots: The bytes of slots.
        memory: The forecast of the memory that a step needs, or None if there is none.
        bytes_in: The bytes received in a step.
        in_unknown: The number of received tensors of unknown size.
        bytes_out: The bytes sent in a step.
        out_unknown: The number of sent tensors of unknown size.
        busy: The part of a step in which it runs ops, from 0 to 1, or None if no time was forecast.
    """

    ops: int = 0
    variables: int = 0
    slots: int = 0
    memory: int | None = None
    bytes_in: int = 0
    in_unknown: int = 0
    bytes_out: int = 0
    out_unknown: int = 0
    busy: float | None = None

    def __add__(self, other: Totals) -> Totals:
        *pairs, _ = zip(astuple(self), astuple(other), strict=True)  # busy shares have no sum
        sums: Any = (None if pair == (None, None) else sum(filter(None, pair)) for pair in pairs)
        return Totals(*sums)


def device_totals(placement: AnyMap) -> dict[str, Totals]:
    """Return the figures of every device of the map, by its name in specs."""
    busy = {each.ref: each.busy for each in placement.device_times}
    received: dict[str, list[int]] = defaultdict(lambda: [0, 0])  # bytes, and tensors of unknown size
    sent: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for link in placement.links():
        for found, devices in ((sent, link.sources), (received, link.targets)):
            share = link.count // len(devices)
            for ref in devices:
                found[ref][0] += share * link.bytes
                found[ref][1] += share * link.unknown
    held = {
        each.ref: (each.ops, each.variable_bytes, each.slot_bytes, each.memory_bytes)
        for each in placement.devices
    }
    nothing = (0, 0, 0, None)

    def figures(ref: str) -> tuple[Any, ...]:
        return *held.get(ref, nothing), *received[ref], *sent[ref], busy.get(ref)

    return {ref: Totals(*figures(ref)) for ref in {**held, **sent, **received}}


def of_group(group: Group, totals: dict[str, Totals]) -> Totals:
    """Return the figures that are shown for a group of devices: those of each, or their sum.

    Args:
        group: The devices that share a row.
        totals: The figures of each device, by its name.
    """
    if group.figures == "each":
        return totals[group.devices[0]]
    return add_up([totals[each] for each in group.devices])


def add_up(parts: Sequence[Totals]) -> Totals:
    """Return the sum of several devices' figures."""
    return sum(parts, start=Totals())


@frozen
class Pool:
    """The memory of a GPU, or of a machine, which all its CPU devices share.

    Attributes:
        devices: The devices.
        needed: The bytes of the forecast.
        limit: The bytes that there are.
    """

    devices: tuple[MapDevice, ...]
    needed: int
    limit: int

    @property
    def excess(self) -> int:
        """The bytes that are missing; zero or less if the memory suffices."""
        return self.needed - self.limit


def pools(placement: AnyMap) -> tuple[Pool, ...]:
    """Return every GPU and machine whose memory the spec gives and for which there is a forecast."""
    names = ((refs.parse(each.ref), each) for each in placement.devices)
    together = gathered((each.ref if name.kind == "gpu" else f"{name.host}", each) for name, each in names)
    return tuple(
        Pool(tuple(devices), sum(each.memory_bytes or 0 for each in devices), limit)
        for devices in together.values()
        if (limit := devices[0].memory_limit) is not None
        and all(each.memory_bytes is not None for each in devices)
    )
