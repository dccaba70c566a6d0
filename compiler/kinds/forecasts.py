"""The memory that a step of many clones takes on a device, from the forecast for a few, and the time of it.

What a clone keeps on its own device does not depend on the others. A device that all clones use, such as a
parameter server, keeps a tensor of each of them. The tensors that are alive at its peak are therefore
counted by what they are of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from heapq import nsmallest

from attrs import evolve, frozen

from compiler.kinds.grid import MapGrid, Spot
from compiler.kinds.kind_map import KindMap, Kinds
from compiler.kinds.kinds import BusyKind, DeviceKind, KindTime, LinkTimeKind
from compiler.kinds.patterns import Patterns
from compiler.kinds.templates import Numbers, Template, escaped
from compiler.kinds.tensors import LARGEST, Orbit, compared, largest_at, largest_of, named, orbits_of
from compiler.kinds.workers import at_first, first_worker
from compiler.mapping.records import DeviceTime, LinkTime, MapDevice, MapTensor, MapTime
from compiler.step.read.memory import StepMemory


@frozen
class Peaks:
    """The peaks of a step of a few clones.

    Attributes:
        of: The peaks with all their tensors, by the names of the devices.
        patterns: The names in the graph.
    """

    of: Mapping[str, StepMemory]
    patterns: Patterns

    def at(self, device: Template, place: Spot) -> tuple[StepMemory, list[Orbit]]:
        """Return the peak of a device, and the tensors that are alive then."""
        ref = device.at(Numbers(self.patterns.grid), place.host or 0, place.group or 0)
        peak = self.of[ref]
        return peak, orbits_of(peak.largest, self.patterns.of(ref).spot, self.patterns)


def with_memory(
    many: KindMap, more: Peaks, of_fewer: Callable[[], Peaks], *, together: bool = False
) -> KindMap:
    """Return the map of many clones with a forecast of the memory of a step.

    Args:
        many: The map.
        more: The peaks of a step of a few clones, from which they follow for many.
        of_fewer: Returns those of fewer clones, which are needed if some of the few do not have a tensor.
        together: Whether a clone has all its gradients at once, because they are those of several
            micro-batches.
    """
    kinds, fewer = Kinds(many), cache(of_fewer)
    grid = kinds.numbers.grid
    of_workers = many.listed is not None
    arriving = (
        _arriving(many, kinds, together=together) if many.mode.update == "sync" and not of_workers else {}
    )
    devices = []
    for kind in many.device_kinds:
        spot = many.kinds[kind.of].spot
        here = first_worker(spot) if of_workers else spot
        peak = _grown(kinds.template(kind.like.ref), here, more, fewer, grid)
        if here != spot:
            peak = StepMemory(
                peak.bytes, tuple(evolve(each, name=at_first(each.name)) for each in peak.largest)
            )
        one = many.kinds[kind.of].count == 1
        waiting = arriving.get(kinds.at(kind.like.ref, spot.host or 0, spot.group or 0)) if one else None
        if waiting is not None and waiting[0] > peak.bytes:
            peak = _of_arriving(*waiting)
        devices.append(DeviceKind(kind.of, _device(kind.like, peak)))
    return evolve(many, device_kinds=tuple(devices))


def _device(device: MapDevice, peak: StepMemory) -> MapDevice:
    held = device.variable_bytes + device.slot_bytes + device.other_bytes
    return evolve(device, step_bytes=peak.bytes, memory_bytes=held + peak.bytes, largest=peak.largest)


def _grown(
    device: Template, place: Spot, more: Peaks, fewer: Callable[[], Peaks], grid: MapGrid
) -> StepMemory:
    """Return the peak of the devices that are like one of a few clones, with their largest tensors."""
    peak, orbits = more.at(device, place)
    few = more.patterns.grid
    if any(each.missing for each in orbits):
        others = fewer()
        orbits = compared(orbits, others.at(device, place)[1], (others.patterns.grid, few))
    added = sum(each.bytes * (each.count(grid) - each.count(few)) for each in orbits)
    return StepMemory(peak.bytes + added, named(largest_of(orbits, grid), grid))


# --- what arrives from all clones -------------------------------------------------------------------------


def _arriving(many: KindMap, kinds: Kinds, *, together: bool) -> dict[str, tuple[int, MapTensor, int]]:
    """Return the bytes that each device receives from all clones but the first before a sum of them is there.

    These are those of the largest tensor, or of all that a clone has at once. With a few clones something
    else may take more. The largest tensor, and the number of clones, come with them.
    """
    found: dict[str, tuple[int, MapTensor, int]] = {}
    grid = kinds.numbers.grid
    last = (grid.hosts - 1, grid.groups - 1)
    for link in many.transfer_kinds:
        if last in kinds.members(link.of) and link.like.largest:
            tensors = [(each.bytes, kinds.template(each.name)) for each in link.like.largest]
            first = largest_at(tensors, kinds.numbers, *last)[0]
            if first.name.startswith(f"clone_{grid.clones - 1}/"):
                size = link.like.bytes if together else first.bytes
                found[link.like.to_device] = ((grid.clones - 1) * size, first, grid.clones)
    return found


def _of_arriving(total: int, tensor: MapTensor, clones: int) -> StepMemory:
    name = tensor.name.partition("/")[2]
    names = nsmallest(LARGEST, (f"clone_{at}/{name}" for at in range(1, clones)))
    return StepMemory(total, tuple(MapTensor(escaped(each), tensor.bytes) for each in names))


# --- the time of a step ------------------------------------------------------------------------------------


def with_time(many: KindMap, time: MapTime) -> KindMap:
    """Return the map of many clones with a forecast of the time of a step.

    Links over which ops only wait for others, without a tensor, are left out, as in the transfers of the map.

    Args:
        many: The map.
        time: The forecast. If it does not have all devices and links of a kind, those that it has stand for
            the others.
    """
    kinds = Kinds(many)
    found = KindTime(
        time.seconds,
        time.estimate,
        time.measured,
        time.source,
        tuple(_devices(kinds, time)),
        tuple(_links(kinds, time)),
        time.by_scope,
        time.by_rule,
        time.bubble,
    )
    return evolve(many, time=found)


def _devices(kinds: Kinds, time: MapTime) -> Iterator[BusyKind]:
    known = {each.ref: each for each in time.devices}
    for kind in kinds.placement.device_kinds:
        ref = kind.like.ref
        found = [known[each] for each in kinds.devices(ref, kind.of) if each in known]
        if found:
            seconds, busy = _means([(each.seconds, each.busy) for each in found])
            yield BusyKind(kind.of, DeviceTime(ref, seconds, busy))


def _links(kinds: Kinds, time: MapTime) -> Iterator[LinkTimeKind]:
    known = {(each.from_device, each.to_device): each for each in time.links}
    for kind in kinds.placement.transfer_kinds:
        like = kind.like
        source, target = (kinds.template(each) for each in (like.from_device, like.to_device))
        pairs = [
            (source.at(kinds.numbers, *each), target.at(kinds.numbers, *each))
            for each in kinds.members(kind.of)
        ]
        found = [known[each] for each in pairs if each in known]
        if found:
            seconds, busy = _means([(each.seconds, each.busy) for each in found])
            link = LinkTime(like.from_device, like.to_device, seconds, busy, found[0].bytes)
            yield LinkTimeKind(kind.of, link)


def _means(figures: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the means of seconds and of busy shares."""
    seconds, busy = (sum(each) / len(figures) for each in zip(*figures, strict=True))
    return seconds, busy
