"""The memory that a step of many clones takes on a device, from the forecast for a few.

What a clone keeps on its own device does not depend on the others. A device that all clones use, such as a
parameter server, keeps a tensor of each of them. The tensors that are alive at its peak are therefore
counted by what they are of.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest

from attrs import evolve, frozen

from compiler.kinds.grid import Grid, Spot
from compiler.kinds.grow import likeness
from compiler.kinds.patterns import Numbers, Patterns
from compiler.kinds.tensors import LARGEST, Orbit, largest_of, named, orbits_of
from compiler.mapping.records import MapDevice, MapTensor, PlacementMap


@frozen
class Peak:
    """The peak of a device in a step of a few clones.

    Attributes:
        bytes: The bytes of all tensors that are alive.
        alive: The tensors.
    """

    bytes: int
    alive: tuple[MapTensor, ...]


def with_memory(
    many: PlacementMap, grid: Grid, peaks: Mapping[str, Peak], patterns: Patterns
) -> PlacementMap:
    """Return the map of many clones with a forecast of the memory of a step.

    Args:
        many: The map.
        grid: The grid of its clones.
        peaks: The peaks of a step of a few clones, by the names of their devices.
        patterns: The names in the graph of these.
    """
    names, numbers, few = Patterns(grid), Numbers(grid), Numbers(patterns.grid)
    arriving = _arriving(many, grid) if many.mode.update == "sync" else {}
    grown: dict[str, _Peak] = {}
    devices = []
    for device in many.devices:
        like = likeness(device.ref, names, few)
        if like not in grown:
            grown[like] = _Peak.of(peaks[like], patterns.of(like).spot, patterns, grid)
        peak = grown[like].on(names.of(device.ref).spot, numbers)
        waiting = arriving.get(device.ref)
        if waiting is not None and waiting[0] > peak.bytes:
            peak = _of_arriving(device, *waiting)
        devices.append(_device(device, peak))
    return evolve(many, devices=tuple(devices))


def _device(device: MapDevice, peak: Peak) -> MapDevice:
    held = device.variable_bytes + device.slot_bytes + device.other_bytes
    return evolve(device, step_bytes=peak.bytes, memory_bytes=held + peak.bytes, largest=peak.alive)


@frozen
class _Peak:
    """The peak of a device of many clones.

    Attributes:
        bytes: The bytes of all tensors that are alive.
        largest: The largest of them.
    """

    bytes: int
    largest: tuple[Orbit, ...]

    @classmethod
    def of(cls, peak: Peak, here: Spot, patterns: Patterns, grid: Grid) -> _Peak:
        """Return the peak of the devices that are like one of a few clones.

        Args:
            peak: The peak of that device.
            here: Its place.
            patterns: The names of the few clones.
            grid: The grid of all clones.
        """
        orbits = orbits_of(peak.alive, here, patterns)
        more = sum(each.bytes * (each.count(grid) - each.count(patterns.grid)) for each in orbits)
        return cls(peak.bytes + more, largest_of(orbits, grid))

    def on(self, here: Spot, numbers: Numbers) -> Peak:
        """Return the peak, with the largest tensors, of the device that has a place."""
        return Peak(self.bytes, named(self.largest, here.host or 0, here.group or 0, numbers))


# --- what arrives from all clones -------------------------------------------------------------------------


def _arriving(many: PlacementMap, grid: Grid) -> dict[str, tuple[int, MapTensor, int]]:
    """Return the bytes of the largest tensor that each device receives from all clones but the first.

    They are all there before their sum is. With a few clones something else may take more.
    """
    found: dict[str, tuple[int, MapTensor, int]] = {}
    last = f"clone_{grid.clones - 1}/"
    for link in many.transfers:
        if link.largest and link.largest[0].name.startswith(last):
            first = link.largest[0]
            if grid.spot_of(link.to_device) == Spot():
                found[link.to_device] = ((grid.clones - 1) * first.bytes, first, grid.clones)
    return found


def _of_arriving(device: MapDevice, total: int, tensor: MapTensor, clones: int) -> Peak:
    where = device.device.replace(":", "_")
    name = tensor.name.partition("/")[2].replace(":", "_")
    names = nsmallest(LARGEST, (f"Recv_clone_{at}/{name}_on_{where}:0" for at in range(1, clones)))
    return Peak(total, tuple(MapTensor(each, tensor.bytes) for each in names))
