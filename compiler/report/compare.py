"""Compare two placement maps: what was moved, added and removed, and the bytes of devices and links."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import asdict, evolve, field, frozen

from compiler.kinds.kind_map import AnyMap
from compiler.mapping.records import MapMode, MapOp, MapShard, MapSpec, MapTime, MapTransfer, PlacementMap
from compiler.report.devices import FIGURES, Totals, device_totals
from dsl.shown import Shown

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@frozen
class Cut:
    """How a variable or slot is cut into pieces.

    Attributes:
        axis: The axis along which it is cut.
        starts: The index along the axis at which each piece begins.
    """

    axis: int
    starts: tuple[int, ...]


@frozen
class Change:
    """A thing that has moved or is cut otherwise, or that only one map has.

    Attributes:
        inner: Its name inside its tower, or its name if it belongs to no clone.
        before: Its devices in the first map, several for a variable with copies; empty if the map lacks it.
        after: Its devices in the second map, likewise.
        cut_before: How it is cut in the first map, or None if it is whole or not there.
        cut_after: The same for the second map.
    """

    name: str
    inner: str
    clone: int | None
    before: tuple[str, ...]
    after: tuple[str, ...]
    bytes: int = 0
    cut_before: Cut | None = None
    cut_after: Cut | None = None

    @property
    def moved(self) -> bool:
        """Whether both maps have it."""
        return bool(self.before and self.after)

    @property
    def cuts(self) -> tuple[str, str]:
        """How both maps cut it, in words; empty unless they cut it in different ways."""
        was, now = self.cut_before, self.cut_after
        if was is None or now is None or was == now:
            return "", ""
        ranges = was.axis == now.axis
        words = [f"axis {each.axis}{f' from {list(each.starts)}' * ranges}" for each in (was, now)]
        return words[0], words[1]


@frozen
class DeviceChange:
    """A device whose figures differ.

    Attributes:
        before: Its figures in the first map, or None if the map lacks it.
    """

    ref: str
    before: Totals | None
    after: Totals | None


@frozen
class OfLink(Generic[V]):
    """What differs of a link between two devices."""

    from_device: str
    to_device: str
    before: V
    after: V


LinkChange: TypeAlias = OfLink[MapTransfer | None]
"""The traffic of a link, None if nothing is sent."""

LinkTimeChange: TypeAlias = OfLink[float]
"""The seconds in which a link carries something in a step."""


@frozen
class TimeChange:
    """The forecasts of the time of a step.

    Attributes:
        links: The links that take another time, those with the largest change first.
    """

    before: MapTime
    after: MapTime
    links: tuple[LinkTimeChange, ...]


@frozen
class Comparison(Shown):
    """All differences between two maps.

    Attributes:
        devices: The devices with other contents, or of one map only.
        links: The pairs of devices between which a step sends something else.
        time: The times of a step, if both maps have a forecast. They alone make no difference of placements.
        maps: The two maps, which a page of the comparison draws.
    """

    spec_before: MapSpec
    spec_after: MapSpec
    mode_before: MapMode
    mode_after: MapMode
    ops: tuple[Change, ...] = field(repr=False)
    variables: tuple[Change, ...] = field(repr=False)
    devices: tuple[DeviceChange, ...]
    links: tuple[LinkChange, ...]
    time: TimeChange | None = None
    maps: tuple[AnyMap, AnyMap] | None = field(default=None, repr=False, eq=False)

    @property
    def different(self) -> bool:
        """Whether there is any difference."""
        parts = (self.ops, self.variables, self.devices, self.links)
        return any(parts) or self.mode_before != self.mode_after


def compare(before: AnyMap, after: AnyMap) -> Comparison:
    """Return the differences between two maps.

    An op is identified by its clone, its name inside its tower, and its type. The only clone of one map,
    which has no scope, is clone 0 of the other.
    """
    one, other = before.expanded(after), after.expanded(before)
    return Comparison(
        spec_before=before.spec,
        spec_after=after.spec,
        mode_before=before.mode,
        mode_after=after.mode,
        ops=tuple(_changed_ops(one, other)),
        variables=tuple(_changed_variables(one, other)),
        devices=tuple(_changed_devices(before, after)),
        links=tuple(_changed_links(one, other)),
        time=_changed_time(one, other),
        maps=(before, after),
    )


# --- ops and variables ------------------------------------------------------------------------------------


def _changed_ops(before: PlacementMap, after: PlacementMap) -> Iterator[Change]:
    for (clone, inner, _), was, now in _differing(_by_key(before), _by_key(after), attrgetter("requested")):
        named = now or was
        assert named is not None
        left, got = ((each.requested,) if each is not None else () for each in (was, now))
        yield Change(named.name, inner, clone, left, got)


def _by_key(placement: PlacementMap) -> dict[tuple[int | None, str, str], MapOp]:
    return {(each.op.clone, each.own_name, each.op.type): each.op for each in placement.counted()}


def _changed_variables(before: PlacementMap, after: PlacementMap) -> Iterator[Change]:
    for name, *held in _differing(_holders(before), _holders(after), lambda held: held):
        was, now = (each or _Held() for each in held)
        size = now.bytes if now.devices else was.bytes
        yield Change(name, name, None, was.devices, now.devices, size, was.cut, now.cut)


@frozen
class _Held:
    """The devices of a variable or slot or of its pieces, its bytes, and how it is cut."""

    devices: tuple[str, ...] = ()
    bytes: int = 0
    cut: Cut | None = None

    def with_piece(self, shard: MapShard | None, devices: tuple[str, ...], size: int) -> _Held:
        """Return the whole with one more piece, or with all of it if `shard` is None."""
        cut = self.cut
        if shard is not None:
            cut = Cut(shard.axis, (*(cut.starts if cut is not None else ()), shard.start))
        return _Held((*self.devices, *devices), self.bytes + size, cut)


def _holders(placement: PlacementMap) -> dict[str, _Held]:
    """Return what holds every variable and slot; one that is in pieces is held by the devices of all."""
    found: dict[str, _Held] = {}
    for variable in placement.variables:
        held = [(variable.name, variable.shard, variable.copies or (variable.device,), variable.bytes)]
        held += [(slot.name, slot.shard, (slot.device,), slot.bytes) for slot in variable.slots]
        for name, shard, devices, size in held:
            whole = name if shard is None else shard.of
            found[whole] = found.get(whole, _Held()).with_piece(shard, devices, size)
    return found


# --- devices and links ------------------------------------------------------------------------------------


def _changed_devices(before: AnyMap, after: AnyMap) -> Iterator[DeviceChange]:
    # Figures of time also differ from profile to profile.
    totals = device_totals(before), device_totals(after)
    return (DeviceChange(*each) for each in _differing(*totals, lambda found: evolve(found, busy=None)))


def _changed_time(before: PlacementMap, after: PlacementMap) -> TimeChange | None:
    if before.time is None or after.time is None:
        return None
    old, new = (
        {(each.from_device, each.to_device): each.seconds for each in time.links}
        for time in (before.time, after.time)
    )
    found = _differing(old, new, lambda seconds: seconds)
    changes = [LinkTimeChange(*pair, was or 0.0, now or 0.0) for pair, was, now in found]
    changes.sort(key=lambda each: -abs(each.after - each.before))
    return TimeChange(before.time, after.time, tuple(changes))


def _changed_links(before: PlacementMap, after: PlacementMap) -> Iterator[LinkChange]:
    old, new = (
        {(each.from_device, each.to_device): each for each in placement.transfers}
        for placement in (before, after)
    )
    found = _differing(old, new, attrgetter("tensors", "bytes", "bytes_unknown"))
    return (LinkChange(*pair, was, now) for pair, was, now in found)


def _differing(
    old: Mapping[K, V], new: Mapping[K, V], look: Callable[[V], object]
) -> Iterator[tuple[K, V | None, V | None]]:
    """Yield what looks different, or only one has, with its key; first what `old` has."""
    for key in dict.fromkeys((*old, *new)):
        was, now = old.get(key), new.get(key)
        if (was and look(was)) != (now and look(now)):
            yield key, was, now


# --- the differences between two placement maps as JSON ---------------------------------------------------


FORMAT_VERSION = "1.0"


def diff_json(comparison: Comparison) -> str:
    """Return one JSON object; `before` and `after` are null for what a map lacks."""
    whole = {
        "format_version": FORMAT_VERSION,
        "different": comparison.different,
        "before": {"spec": asdict(comparison.spec_before), "mode": asdict(comparison.mode_before)},
        "after": {"spec": asdict(comparison.spec_after), "mode": asdict(comparison.mode_after)},
        "ops": [_op(each) for each in comparison.ops],
        "variables": [_variable(each) for each in comparison.variables],
        "devices": [{"ref": each.ref, **_sides(each, _FIGURES)} for each in comparison.devices],
        "links": [
            {"from": each.from_device, "to": each.to_device, **_sides(each, _TRAFFIC)}
            for each in comparison.links
        ],
        "time": _time(comparison.time),
    }
    return json.dumps(whole) + "\n"


def _time(change: TimeChange | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {
        "before": change.before.seconds,
        "after": change.after.seconds,
        "estimate": change.before.estimate or change.after.estimate,
        "links": [
            {"from": each.from_device, "to": each.to_device, "before": each.before, "after": each.after}
            for each in change.links
        ],
    }


def _op(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "clone": change.clone,
        "before": next(iter(change.before), None),
        "after": next(iter(change.after), None),
    }


def _variable(change: Change) -> dict[str, Any]:
    return {
        "name": change.name,
        "bytes": change.bytes,
        "before": list(change.before) or None,
        "after": list(change.after) or None,
        "cut_before": None if change.cut_before is None else asdict(change.cut_before),
        "cut_after": None if change.cut_after is None else asdict(change.cut_after),
    }


_FIGURES = {each.key: each.name for each in FIGURES} | {"busy": "busy"}
"""The figures of devices by their names in JSON."""
_TRAFFIC = {each: each for each in ("tensors", "bytes", "bytes_unknown")}


def _sides(change: DeviceChange | LinkChange, figures: Mapping[str, str]) -> dict[str, Any]:
    sides = {"before": change.before, "after": change.after}
    return {
        when: None if side is None else {name: getattr(side, each) for name, each in figures.items()}
        for when, side in sides.items()
    }
