"""The data of the page of two placements side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import asdict, frozen

from compiler.kinds.records.kind_map import AnyMap
from compiler.mapping.records import PlacementMap, RuleRef
from compiler.report.comparison.changes import lines_of as scopes_of
from compiler.report.comparison.compare import Change, Comparison
from compiler.report.page.data.numbers import NONE, Numbers
from compiler.report.page.data.placement_data import device_data, transfer_data
from compiler.report.page.data.spec_lines import Lines

SCOPES = 200
"""The most scopes by which the ops that have changed are listed."""

OPS = 2000
"""The most ops that are listed one by one; the scopes count all."""


@frozen
class Side:
    """One of two placements.

    Attributes:
        label: What it is called: its file, with the settings that are its own.
        placement: Its map.
        lines: The lines of its spec that are shown.
    """

    label: str
    placement: AnyMap
    lines: Lines


def diff_data(before: Side, after: Side, found: Comparison) -> dict[str, Any]:
    """Return the data that the scripts of the page read.

    Returns:
        Two `sides`; the `scopes` of ops that have changed, each `[scope, ops, devices before and after in
        words]`; `ops`, each `[name, devices before and after, rules before and after, bytes]` by numbers
        of `places` and `rules`; and `left`, the number of ops that are not listed one by one.
    """
    sides = (before, after)
    places = Numbers({each.ref: at for at, each in enumerate(before.placement.devices)})
    for device in after.placement.devices:
        places.of(device.ref)
    rules, files, tensors = Numbers(), Numbers(), Numbers()
    reasons = [_reasons(one.placement.expanded(other.placement)) for one, other in (sides, sides[::-1])]
    held = {each.name for each in found.variables}  # by ops of the same names
    changes = (*found.variables, *(each for each in found.ops if each.name not in held))
    listed = [_change(each, reasons, places, rules, files) for each in changes[:OPS]]
    modes = [asdict(each.placement.mode) for each in sides]
    scopes = scopes_of(found.ops, SCOPES) if found.ops else ()
    return {
        "title": f"{before.label} and {after.label}",
        "modes": [
            [name, str(was), str(modes[1][name])] for name, was in modes[0].items() if was != modes[1][name]
        ],
        "sides": [
            {
                "label": each.label,
                "facts": [
                    f"{each.placement.op_count:,} ops",
                    f"{each.placement.mode.clones} clones",
                    f"sha256 {each.placement.spec.sha256[:12]}",
                ],
                "seconds": None if each.placement.time is None else each.placement.time.seconds,
                "devices": device_data(each.placement),
                "numbers": [places.of(device.ref) for device in each.placement.devices],
                "transfers": transfer_data(each.placement, places, tensors),
            }
            for each in sides
        ],
        "scopes": [[each.scope, each.ops, each.way] for each in scopes],
        "ops": listed,
        "left": max(0, len(changes) - OPS),
        "rules": rules.values(),
        "files": files.values(),
        "lines": [[each.lines.get(file, {}) for file in files.values()] for each in sides],
        "places": places.values(),
    }


def _reasons(placement: PlacementMap) -> Mapping[tuple[int | None, str], RuleRef]:
    """Return what placed each op, by clone and name inside the clone, and each whole variable."""
    found = {(each.op.clone, each.own_name): each.op.rule for each in placement.counted()}
    wholes = ((each.name if each.shard is None else each.shard.of, each.rule) for each in placement.variables)
    return {**found, **{(None, name): rule for name, rule in wholes}}


def _change(
    change: Change,
    reasons: Sequence[Mapping[tuple[int | None, str], RuleRef]],
    places: Numbers,
    rules: Numbers,
    files: Numbers,
) -> list[Any]:
    def rule(at: int) -> int:
        found = reasons[at].get((change.clone, change.inner))
        if found is None:
            return NONE
        file = NONE if found.file is None else files.of(found.file)
        text = found.decided_by or found.text
        return rules.of((found.reason, text, file, found.line or 0, found.column or 0))

    def numbers(refs: Iterable[str]) -> list[int]:
        return [places.of(each) for each in refs]

    was, now = change.cuts
    return [
        f"{change.name} (along {was}, then along {now})" if was else change.name,
        numbers(change.before),
        numbers(change.after),
        rule(0) if change.before else NONE,
        rule(1) if change.after else NONE,
        change.bytes,
    ]
