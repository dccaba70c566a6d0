"""Reading the placement map in a file, of any version that is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import frozen

from compiler.kinds.deployment.grid import NotAlikeError
from compiler.kinds.names.templates import ORDINAL, SUM, TASK
from compiler.kinds.records.kind_map import AnyMap, KindMap, Kinds, MapKind, MapRange, numbers_of
from compiler.mapping.records import LIMIT, PlacementMap, RuleRef
from dsl.files.regular import open_regular
from dsl.files.typed_json import BadRecord, parse_record

MOST_CLONES = 100_000
"""The most clones of a spec."""


@frozen
class _Version:
    format_version: str = "1.0"


def read_map(path: Path | str) -> AnyMap:
    """Read a placement map.

    Args:
        path: The file.

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
    if not (0 < grid.tasks * grid.clones <= MOST_CLONES and 0 < grid.devices <= MOST_CLONES):
        raise BadRecord(f"has a `grid` without clones, or with more than {MOST_CLONES:,}")
    if placement.listed not in (None, f"{grid.job}:0"):
        raise BadRecord("has `listed`, which is not the first task with clones")
    for at, kind in enumerate(placement.kinds):
        _require_kind(kind, grid.tasks, grid.clones, f"kinds[{at}]")
    kinds = placement.named
    for where, of, texts in _texts(placement):
        if of >= len(placement.kinds):
            raise BadRecord(f"has `{where}.of`, which is the number of no kind")
        for text in texts:
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
    if not known or kind.count != len(numbers_of(kind.tasks)) * len(numbers_of(kind.clones)):
        raise BadRecord(f"has `{where}`, which is neither of the first tasks and clones nor of all others")


def _is_first_or_others(numbers: MapRange | None, count: int) -> bool:
    if numbers is None:
        return True
    return (numbers.first, numbers.last) == (0, 0) or 1 == numbers.first <= numbers.last == count - 1


def _texts(placement: KindMap) -> Iterator[tuple[str, int, Iterable[str]]]:
    """Yield each part of a map that has texts with places: where it is, its kind, and the texts."""
    for at, device in enumerate(placement.device_kinds):
        like = device.like
        names = (each.name for each in like.largest)
        yield f"devices[{at}]", device.of, (like.ref, like.device.replace(ORDINAL, "0"), *names)
    for at, clone in enumerate(placement.clone_kinds):
        yield f"clones[{at}]", clone.of, (clone.like.scope, *clone.like.devices)
    for at, variable in enumerate(placement.variable_kinds):
        where = f"variables[{at}]"
        for number, copy in enumerate(variable.copies):
            yield f"{where}.copies[{number}]", copy.of, (copy.device,)
        for number, slot in enumerate(variable.slots):
            whole = () if slot.like.shard is None else (slot.like.shard.of,)
            yield f"{where}.slots[{number}]", slot.of, (slot.like.name, slot.like.device, *whole)
    for at, op in enumerate(placement.op_kinds):
        yield f"ops[{at}]", op.of, (op.like.name, op.like.requested, *_of_rule(op.like.rule))
    for at, link in enumerate(placement.transfer_kinds):
        names = (each.name for each in link.like.largest)
        yield f"transfers[{at}]", link.of, (link.like.from_device, link.like.to_device, *names)
    yield from _times(placement)


def _times(placement: KindMap) -> Iterator[tuple[str, int, Iterable[str]]]:
    if placement.time is None:
        return
    for at, device in enumerate(placement.time.device_kinds):
        yield f"time.devices[{at}]", device.of, (device.like.ref,)
    for at, link in enumerate(placement.time.link_kinds):
        yield f"time.links[{at}]", link.of, (link.like.from_device, link.like.to_device)


def _of_rule(rule: RuleRef) -> tuple[str, ...]:
    return (rule.text,) if rule.decided_by is None else (rule.text, rule.decided_by)


def _require_text(kinds: Kinds, kind: MapKind, text: str, where: str) -> None:
    try:
        parts = kinds.template(text).parts
    except NotAlikeError as fault:
        raise BadRecord(f"has a text in `{where}`, which {fault}") from None
    for each in parts:
        of_task = each == TASK or (isinstance(each, int) and not 0 <= each < SUM)
        if isinstance(each, int) and (kind.tasks if of_task else kind.clones) is None:
            raise BadRecord(f"has a text in `{where}` with a number of what its kind is not of")
