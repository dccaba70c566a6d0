"""The differences between two placement maps as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import asdict

from compiler.report.comparison.compare import Change, Comparison, DeviceChange, LinkChange, TimeChange

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


_FIGURES = {
    "ops": "ops",
    "variable_bytes": "variables",
    "slot_bytes": "slots",
    "memory_bytes": "memory",
    "bytes_in": "bytes_in",
    "bytes_out": "bytes_out",
    "busy": "busy",
}
"""The figures of devices by their names in JSON."""
_TRAFFIC = {each: each for each in ("tensors", "bytes", "bytes_unknown")}


def _sides(change: DeviceChange | LinkChange, figures: Mapping[str, str]) -> dict[str, Any]:
    """Return figures before and after a change."""
    sides = {"before": change.before, "after": change.after}
    return {
        when: None if side is None else {name: getattr(side, each) for name, each in figures.items()}
        for when, side in sides.items()
    }
