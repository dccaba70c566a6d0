"""The bytes that each device holds, sends and receives, from a placement map."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from attrs import astuple, frozen

from compiler.kinds.records.kind_map import AnyMap
from compiler.report.columns import Group


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
