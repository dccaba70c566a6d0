"""TensorFlow's own all-reduce: one CollectiveReduce for each device."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from compiler.figures import gathered
from compiler.reasons import Placed
from compiler.step.record import Tensor, Value
from compiler.step.sums.base import Reduction
from compiler.step.values import dense
from compiler.topology import Device


def collective(reduction: Reduction) -> list[Value]:
    """Sum the values of the clones on each device, and then between the devices, as a ring.

    Every device takes part in every step. If only one place needs the sum, it still waits for all of them.
    """
    local = _sums_by_device(reduction)
    if len(local) == 1:
        (total, place) = next(iter(local.values()))
        return [reduction.copy(each, total, place, "copy") for each in reduction.destinations]
    reduced = _all_reduce(reduction, local)
    if reduction.one_destination is not None:
        return [_at_one_place(reduction, reduced)]
    return [
        reduction.copy(place, reduced[home.device], home, "copy")
        for place, home in zip(reduction.destinations, reduction.homes, strict=True)
    ]


def _sums_by_device(reduction: Reduction) -> dict[Device, tuple[Value, Placed]]:
    pairs = zip(reduction.values, reduction.homes, strict=True)
    here = gathered((home.device, value) for value, home in pairs)
    places = {each.device: each for each in reduction.homes}
    return {
        device: (reduction.add(places[device], values, "local"), places[device])
        for device, values in here.items()
    }


def _all_reduce(reduction: Reduction, local: dict[Device, tuple[Value, Placed]]) -> dict[Device, Tensor]:
    attributes = {
        "group_size": len(local),
        "group_key": _group_key(tuple(local)),
        "instance_key": reduction.writer.next_number("collective"),
        "merge_op": "Add",
        "final_op": "Id",
        "subdiv_offsets": [0],
        "communication_hint": "ring",
    }
    writer, reduced = reduction.writer, {}
    for device, (value, place) in local.items():
        name = writer.unique(f"{reduction.scope}/all_reduce")  # rows are refused before
        (reduced[device],) = writer.write("CollectiveReduce", name, (dense(value),), place, attributes)
    return reduced


def _at_one_place(reduction: Reduction, reduced: dict[Device, Tensor]) -> Tensor:
    """Return the sum at the one place that needs it: that of its own device, if the device took part."""
    place, name = reduction.destinations[0], reduction.writer.unique(f"{reduction.scope}/sum")
    own = reduced.get(place.device, next(iter(reduced.values())))
    waits = [each.op for each in reduced.values() if each is not own]
    return reduction.writer.write("Identity", name, (own,), place, waits=waits)[0]


def _group_key(devices: Sequence[Device]) -> int:
    """Return the number of a group: the same for the same devices."""
    return zlib.crc32(" ".join(sorted(each.ref for each in devices)).encode()) & 0x7FFFFFFF
