"""Every op with its device, its role and what put it there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler.placement_map import MapOp, PlacementMap, RuleRef
from compiler.report.choose import choose_ops
from compiler.report.table import GAP
from compiler.report.view import View


def op_list(placement: PlacementMap, view: View) -> Iterator[str]:
    """Yield a line per op that `view` chooses: device, role, name, reason; in the order of the graph."""
    ops = choose_ops(placement, view.glob, only_misplaced=view.only_misplaced)
    if not ops:
        yield view.nothing()
        return
    devices = [_device(op) for op in ops]
    widths = [_widest(devices), _widest([op.role for op in ops])]
    for op, device in zip(ops, devices, strict=True):
        yield GAP.join((device.ljust(widths[0]), op.role.ljust(widths[1]), op.name, reason(op.rule)))


def reason(rule: RuleRef) -> str:
    """Return what put a thing where it is, in one line: `clones -> gpu[*] (train.tfdeploy:16)`."""
    if rule.reason == "follows":
        return f"follows {rule.text}"
    if rule.file is None:
        return f"default {rule.text}"
    return f"{rule.text} ({rule.file}:{rule.line})"


def _device(op: MapOp) -> str:
    moved = op.assigned is not None and op.assigned != op.requested
    return f"{op.requested} -> {op.assigned}" if moved else op.requested


def _widest(texts: Sequence[str]) -> int:
    return max(map(len, set(texts)))
