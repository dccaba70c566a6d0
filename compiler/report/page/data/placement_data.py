"""The data of the page of a placement map: names as a tree, and numbers for everything that recurs."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from compiler.figures import plural
from compiler.mapping.records import MapOp, MapVariable, PlacementMap
from compiler.report.page.data.numbers import Numbers
from compiler.report.page.data.spec_lines import Lines
from compiler.report.page.data.timeline_data import timeline_data
from compiler.report.totals import device_totals
from compiler.time.forecast import StepForecast

NONE = -1


@define
class Tables:
    """What the tree refers to by number: names, (type, role, clone, devices), rules, devices, files."""

    places: Numbers
    names: Numbers = field(factory=Numbers)
    kinds: Numbers = field(factory=Numbers)
    rules: Numbers = field(factory=Numbers)
    files: Numbers = field(factory=Numbers)

    def kind(self, op: MapOp) -> int:
        """Return the number of what an op has in common with others."""
        clone = NONE if op.clone is None else op.clone
        assigned = NONE if op.assigned is None else self.places.of(op.assigned)
        return self.kinds.of((op.type, op.role, clone, self.places.of(op.requested), assigned))

    def rule(self, op: MapOp) -> int:
        """Return the number of the rule that placed an op."""
        rule = op.rule
        file = NONE if rule.file is None else self.files.of(rule.file)
        return self.rules.of(
            (rule.reason, rule.text, file, rule.line or 0, rule.column or 0, rule.decided_by or "")
        )


def page_data(placement: PlacementMap, lines: Lines, forecast: StepForecast | None = None) -> dict[str, Any]:
    """Return the data that the page's scripts read.

    Args:
        placement: The map.
        lines: The lines of the spec that are shown.
        forecast: The forecast of the step, whose timeline is shown; a map that was read from a file has none.
    """
    tables = Tables(Numbers({each.ref: at for at, each in enumerate(placement.devices)}))
    tree = _tree(placement, tables)
    mode = placement.mode
    place = tables.places.of
    return {
        "title": f"Placement of {placement.spec.path}",
        "facts": [
            f"{mode.update}, {mode.replication}, {mode.aggregate}, {mode.reduce}",
            plural(mode.clones, "clone"),
            plural(len(placement.ops), "op"),
            plural(len(placement.variables), "variable"),
            f"TensorFlow {placement.tensorflow}",
            f"sha256 {placement.spec.sha256[:12]}",
        ],
        "devices": _devices(placement),
        "clones": [each.scope for each in placement.clones],
        "transfers": [
            [
                place(each.from_device),
                place(each.to_device),
                each.tensors,
                each.bytes,
                each.bytes_unknown,
                [[tensor.name, tensor.bytes] for tensor in each.largest],
            ]
            for each in placement.transfers
        ],
        "variables": {each.name: _variable(each, tables.places) for each in placement.variables},
        "tree": tree,
        "names": tables.names.values(),
        "kinds": tables.kinds.values(),
        "rules": tables.rules.values(),
        "files": tables.files.values(),
        "lines": [lines.get(file, {}) for file in tables.files.values()],
        "places": tables.places.values(),
        "step": None if forecast is None else timeline_data(forecast, _source(placement)),
    }


def _source(placement: PlacementMap) -> str:
    return "" if placement.time is None else placement.time.source


def _tree(placement: PlacementMap, tables: Tables) -> list[Any]:
    """Return nested lists: `[name, child...]` for a scope, `[name, kind, rule, child...]` for an op."""
    root: list[Any] = [tables.names.of("")]
    nodes: dict[str, list[Any]] = {"": root}

    def node(path: str) -> list[Any]:
        if path not in nodes:
            outer, _, name = path.rpartition("/")
            nodes[path] = [tables.names.of(name)]
            node(outer).append(nodes[path])
        return nodes[path]

    for op in placement.ops:
        node(op.name)[1:1] = [tables.kind(op), tables.rule(op)]
    return root


def _devices(placement: PlacementMap) -> list[dict[str, Any]]:
    totals = device_totals(placement)
    return [
        {
            "ref": each.ref,
            "device": each.device,
            "ops": each.ops,
            "variables": each.variable_bytes,
            "slots": each.slot_bytes,
            "memory": each.memory_bytes,
            "limit": each.memory_limit,
            "step": each.step_bytes,
            "other": each.other_bytes,
            "largest": [[tensor.name, tensor.bytes] for tensor in each.largest],
            "in": totals[each.ref].bytes_in,
            "in_unknown": totals[each.ref].in_unknown,
            "out": totals[each.ref].bytes_out,
            "out_unknown": totals[each.ref].out_unknown,
        }
        for each in placement.devices
    ]


def _variable(variable: MapVariable, places: Numbers) -> list[Any]:
    return [
        variable.shape,
        variable.dtype,
        variable.bytes,
        variable.trainable,
        [places.of(each) for each in variable.copies],
        [[each.name, each.bytes, places.of(each.device)] for each in variable.slots],
        variable.group,
    ]
