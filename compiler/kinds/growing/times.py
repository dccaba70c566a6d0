"""The forecast of the time of a step of many clones, by kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import evolve

from compiler.kinds.records.kind_map import KindMap, Kinds
from compiler.kinds.records.kinds import BusyKind, KindTime, LinkTimeKind
from compiler.mapping.records import DeviceTime, LinkTime, MapTime


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
