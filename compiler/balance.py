"""Spreading variables over devices by size.

Longest processing time first (Graham, 1969): the largest variable goes to the least loaded device. The result
is at most 4/3 of the best one, and does not depend on the order in which variables were created.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler.plan import VariableInfo
from compiler.topology import Device


def spread_by_bytes(
    infos: Sequence[VariableInfo], devices: Sequence[Device], load: Mapping[Device, int]
) -> list[Device]:
    """Return a device for each variable, slots counted; `load` is what devices carry already, in bytes."""
    weights = {device: load.get(device, 0) for device in dict.fromkeys(devices)}
    order = sorted(range(len(infos)), key=lambda at: (-_weight(infos[at]), infos[at].name))
    chosen: dict[int, Device] = {}
    for at in order:
        device = min(weights, key=lambda each: weights[each])
        weights[device] += _weight(infos[at])
        chosen[at] = device
    return [chosen[at] for at in range(len(infos))]


def _weight(info: VariableInfo) -> int:
    return info.bytes + info.slot_bytes
