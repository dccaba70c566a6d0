"""A list of all ops with device, role, and the reason for the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.mapping.records import MapOp, PlacementMap, RuleRef
from compiler.report.table import GAP
from compiler.report.view import View


def op_list(placement: PlacementMap, view: View) -> Iterator[str]:
    """Yield a line for each op that `view` chooses, in the order of the graph: device, role, name, reason."""
    ops = [each.op for each in view.chosen(placement)]
    if not ops:
        yield view.nothing()
        return
    devices = [_device(op) for op in ops]
    widths = [_widest(devices), _widest([op.role for op in ops])]
    for op, device in zip(ops, devices, strict=True):
        yield GAP.join(
            (device.ljust(widths[0]), op.role.ljust(widths[1]), op.name, reason(op.rule, placement.spec.path))
        )


def reason(rule: RuleRef, spec: str) -> str:
    """Return the reason for a place in one line: `clones -> gpu[*] (line 16)`.

    The file is named if it is not `spec`.
    """
    decided = rule.decided_by or rule.text
    follows = f"follows {rule.text}" if rule.reason == "follows" else ""
    if follows and rule.decided_by is None:
        return follows
    if rule.file is None:
        place = "default"
    else:
        place = f"line {rule.line}" if rule.file == spec else f"{rule.file}:{rule.line}"
    return f"{follows}{': ' if follows else ''}{decided} ({place})"


def _device(op: MapOp) -> str:
    moved = op.assigned is not None and op.assigned != op.requested
    return f"{op.requested} -> {op.assigned}" if moved else op.requested


def _widest(texts: Sequence[str]) -> int:
    return max(map(len, set(texts)))
