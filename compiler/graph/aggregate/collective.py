"""TensorFlow's own all-reduce: one CollectiveReduce for each device."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import tensorflow as tf

from compiler.graph.aggregate.base import Gradient, Reduction
from compiler.reasons import Placed
from compiler.topology import Device

_MADE = "tfdeploy/collectives"  # name of the collection with the graph's collectives


def collective(reduction: Reduction) -> list[Gradient]:
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


def _sums_by_device(reduction: Reduction) -> dict[Device, tuple[tf.Tensor, Placed]]:
    here: dict[Device, list[tf.Tensor]] = {}
    for value, home in zip(reduction.values, reduction.homes, strict=True):
        here.setdefault(home.device, []).append(value)
    places = {each.device: each for each in reduction.homes}
    return {
        device: (reduction.add(places[device], values, "local"), places[device])
        for device, values in here.items()
    }


def _all_reduce(
    reduction: Reduction, local: dict[Device, tuple[tf.Tensor, Placed]]
) -> dict[Device, tf.Tensor]:
    instance = _next_instance(reduction.name)
    group = _group_key(tuple(local))
    reduced = {}
    for device, (value, place) in local.items():
        with reduction.at(place):
            reduced[device] = tf.raw_ops.CollectiveReduce(
                input=value,
                group_size=len(local),
                group_key=group,
                instance_key=instance,
                merge_op="Add",
                final_op="Id",
                subdiv_offsets=[0],
                communication_hint="ring",
                name="all_reduce",
            )
    return reduced


def _at_one_place(reduction: Reduction, reduced: dict[Device, tf.Tensor]) -> tf.Tensor:
    """Return the sum at the one place that needs it: that of its own device, if the device took part."""
    place = reduction.destinations[0]
    own = reduced.get(place.device, next(iter(reduced.values())))
    with reduction.at(place), tf.control_dependencies(list(reduced.values())):
        return tf.identity(own, name="sum")


def _next_instance(name: str) -> int:
    """Return a number that no other all-reduce of the graph has."""
    made = tf.compat.v1.get_collection_ref(_MADE)
    made.append(name)
    return len(made)


def _group_key(devices: Sequence[Device]) -> int:
    """Return the number of a group: the same for the same devices."""
    return zlib.crc32(" ".join(sorted(each.ref for each in devices)).encode()) & 0x7FFFFFFF
