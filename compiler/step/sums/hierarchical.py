"""Sums within groups of neighbouring devices, then between the groups; the total goes back the same way."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.figures import gathered
from compiler.reasons import Placed
from compiler.step.record import Value
from compiler.step.sums.base import Reduction
from compiler.topology import Device

PAIR = 2


def hierarchical(reduction: Reduction, size: int | None = None) -> list[Value]:
    """Sum in two levels. The device that does the work changes from reduction to reduction.

    Args:
        size: The number of consecutive devices in a group. By default a group is the devices of a task, or
            pairs if all devices are of one task.
    """
    groups = group_ranks([each.device for each in reduction.homes], size)
    mains = [ranks[reduction.number % len(ranks)] for ranks in groups]
    place = reduction.one_destination or reduction.homes[mains[reduction.number % len(groups)]]
    if len(groups) == 1:
        total = reduction.add(place, reduction.values, "total")
    else:
        sums = [
            reduction.add(reduction.homes[main], [reduction.values[rank] for rank in ranks], f"group_{at}")
            for at, (main, ranks) in enumerate(zip(mains, groups, strict=True))
        ]
        total = reduction.add(place, sums, "total")
    if reduction.one_destination is not None:
        return [total]
    return _spread(reduction, total, place, groups, mains)


def _spread(
    reduction: Reduction,
    total: Value,
    place: Placed,
    groups: Sequence[Sequence[int]],
    mains: Sequence[int],
) -> list[Value]:
    """Copy the total to the main device of each group, and from there to the other devices of the group."""
    found: dict[int, Value] = {}
    for main, ranks in zip(mains, groups, strict=True):
        there = reduction.destinations[main]
        found[main] = reduction.copy(there, total, place, "copy")
        for rank in ranks:
            if rank != main:
                found[rank] = reduction.copy(reduction.destinations[rank], found[main], there, "copy")
    return [found[rank] for rank in range(len(found))]


def group_ranks(devices: Sequence[Device], size: int | None) -> list[list[int]]:
    """Return the clones of each group, in order; clones on one device are in one group.

    Args:
        devices: The device of each clone, by the number of the clone.
        size: The number of devices in a group. None makes a group of each host, or pairs if there is one host
            only.
    """
    hosts = gathered((device.host, device) for device in dict.fromkeys(devices))
    width = size if size is not None else PAIR if len(hosts) == 1 else len(devices)
    groups = [there[at : at + width] for there in hosts.values() for at in range(0, len(there), width)]
    group_of = {device: number for number, group in enumerate(groups) for device in group}
    ranks = gathered((group_of[device], rank) for rank, device in enumerate(devices))
    return [ranks[number] for number in range(len(groups))]
