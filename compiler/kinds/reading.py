"""Reading the placement map in a file, of any version that is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import evolve, fields, frozen

from compiler.kinds.grid import NotAlikeError
from compiler.kinds.kind_map import AnyMap, KindMap, Kinds, texts_of
from compiler.kinds.kinds import DeviceKind, KindTime, MapKind, MapRange, VariableKind
from compiler.kinds.templates import ORDINAL, SUM, TASK
from compiler.mapping.records import LIMIT, PlacementMap
from dsl.files.regular import open_regular
from dsl.files.typed_json import NAME, BadRecord, parse_record

MOST_CLONES = 100_000
"""The most clones of a spec."""


@frozen
class _Version:
    format_version: str = "1.0"


def read_map(path: Path | str) -> AnyMap:
    """Read a placement map.

    Raises:
        BadRecord: If it is no placement map, or of a version that is not known.
        OSError: If the file cannot be read or is not a regular file.
    """
    with open_regular(path) as file:
        text = file.read(LIMIT + 1)
    version = parse_record(text, _Version, LIMIT).format_version
    major = version.partition(".")[0]
    if major == "1":
        return parse_record(text, PlacementMap, LIMIT)
    if major != "2":
        raise BadRecord(f"is of format {version}, and known are 1.x and 2.x")
    found = parse_record(text, KindMap, LIMIT)
    _require_whole(found)
    return found


def _require_whole(placement: KindMap) -> None:
    """Raise BadRecord if a map by kinds contradicts itself, so that it cannot be expanded."""
    grid = placement.grid
    if not (0 < grid.clones <= MOST_CLONES and 0 < grid.members <= MOST_CLONES):
        raise BadRecord(f"has a `grid` without clones, or with more than {MOST_CLONES:,}")
    if placement.listed not in (None, f"{grid.job}:0"):
        raise BadRecord("has `listed`, which is not the first task with clones")
    for at, kind in enumerate(placement.kinds):
        _require_kind(kind, grid.hosts, grid.groups, f"kinds[{at}]")
    kinds = placement.named
    for where, of, part in _kinds_in(placement):
        if of >= len(placement.kinds):
            raise BadRecord(f"has `{where}.of`, which is the number of no kind")
        for text in texts_of(part):
            _require_text(kinds, placement.kinds[of], text, where)
    devices = {ref for each in placement.device_kinds for ref in kinds.devices(each.like.ref, each.of)}
    named = {(each.like.requested, each.of) for each in placement.op_kinds}
    ends = [(each.of, each.like.from_device, each.like.to_device) for each in placement.transfer_kinds]
    if placement.time is not None:
        ends += [(each.of, each.like.from_device, each.like.to_device) for each in placement.time.link_kinds]
        named |= {(each.like.ref, each.of) for each in placement.time.device_kinds}
    named |= {(text, of) for of, *both in ends for text in both}
    for text, of in sorted(named):
        if not devices.issuperset(kinds.devices(text, of)):
            raise BadRecord("names a device that is not among its `devices`")


def _require_kind(kind: MapKind, tasks: int, clones: int, where: str) -> None:
    if kind.tasks is None and kind.clones is not None:
        raise BadRecord(f"has `{where}`, which has clones of no task")
    known = _is_first_or_others(kind.tasks, tasks) and _is_first_or_others(kind.clones, clones)
    if not known or kind.count != len(kind.hosts) * len(kind.groups):
        raise BadRecord(f"has `{where}`, which is neither of the first tasks and clones nor of all others")


def _is_first_or_others(numbers: MapRange | None, count: int) -> bool:
    if numbers is None:
        return True
    return (numbers.first, numbers.last) == (0, 0) or 1 == numbers.first <= numbers.last == count - 1


def _kinds_in(record: Any, where: str = "") -> Iterator[tuple[str, int, Any]]:
    """Yield where each part of a map is that is of a kind, the number of the kind, and what has its texts."""
    for each in fields(type(record)):
        value, name = getattr(record, each.name), each.metadata.get(NAME, each.name)
        if isinstance(value, KindTime):
            yield from _kinds_in(value, f"{name}.")
        for at, part in enumerate(value if isinstance(value, tuple) else ()):
            if isinstance(part, DeviceKind):
                device = part.like.device.replace(ORDINAL, "0")
                yield f"{where}{name}[{at}]", part.of, evolve(part.like, device=device)
            elif isinstance(getattr(part, "of", None), int):
                yield f"{where}{name}[{at}]", part.of, getattr(part, "like", part)
            elif isinstance(part, VariableKind):
                yield from _kinds_in(part, f"{where}{name}[{at}].")


def _require_text(kinds: Kinds, kind: MapKind, text: str, where: str) -> None:
    try:
        parts = kinds.template(text).parts
    except NotAlikeError as fault:
        raise BadRecord(f"has a text in `{where}`, which {fault}") from None
    for each in parts:
        of_task = each == TASK or (isinstance(each, int) and not 0 <= each < SUM)
        if isinstance(each, int) and (kind.tasks if of_task else kind.clones) is None:
            raise BadRecord(f"has a text in `{where}` with a number of what its kind is not of")
