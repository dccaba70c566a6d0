"""The data of the page of a placement map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from compiler.collector import collector_paused
from compiler.figures import plural
from compiler.kinds.records.kind_map import AnyMap
from compiler.mapping.records import MapTensor, MapVariable
from compiler.report.page.data.model_data import model_data
from compiler.report.page.data.numbers import Numbers, Tables
from compiler.report.page.data.spec_lines import Lines
from compiler.report.page.data.timeline_data import timeline_data
from compiler.report.page.data.tree import measures, tree_data
from compiler.report.page.details import Details
from compiler.report.totals import device_totals


def page_data(placement: AnyMap, lines: Lines, details: Details) -> dict[str, Any]:
    """Return the data that the page's scripts read."""
    tables = Tables(Numbers({each.ref: at for at, each in enumerate(placement.devices)}))
    with collector_paused():
        tree, families = tree_data(placement, tables, details)
    tensors = Numbers()
    model = None if details.model is None else model_data(details.model, tables.files)
    mode = placement.mode
    return {
        "title": f"Placement of {placement.spec.path}",
        "facts": [
            f"{mode.update}, {mode.replication}, {mode.aggregate}, {mode.reduce}",
            plural(mode.clones, "clone"),
            plural(placement.op_count, "op"),
            plural(len(placement.variables_like), "variable"),
            f"TensorFlow {placement.tensorflow}",
            f"sha256 {placement.spec.sha256[:12]}",
        ],
        "devices": device_data(placement),
        "clones": {each.index: each.scope for each in placement.clones},
        "transfers": transfer_data(placement, tables.places, tensors),
        "tensors": tensors.values(),
        "variables": {each.name: _variable(each, tables.places) for each in placement.variables},
        "measures": measures(details),
        "tree": tree,
        "families": families,
        "names": tables.names.values(),
        "kinds": tables.kinds.values(),
        "rules": tables.rules.values(),
        "costs": tables.costs.values(),
        "spots": tables.spot_values(),
        "model": model,
        "files": tables.files.values(),
        "lines": [lines.get(file, {}) for file in tables.files.values()],
        "step": None
        if details.time is None
        else timeline_data(details.time, placement.time.source if placement.time else "", details.trace),
        "places": tables.places.values(),
    }


def device_data(placement: AnyMap) -> list[dict[str, Any]]:
    """Return the devices with what is on each of them."""
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
            "busy": totals[each.ref].busy,
        }
        for each in placement.devices
    ]


_OF_CLONE = re.compile(r"clone_(\d+)(?=/)")


def transfer_data(placement: AnyMap, places: Numbers, largest: Numbers) -> list[list[Any]]:
    """Return the links between devices: `[from, to, tensors, bytes, unknown, largest, busy, clone]`.

    Args:
        placement: The map.
        places: Numbers for devices.
        largest: Numbers for lists of the largest tensors, each `(name, bytes)`. Links of several clones have
            the same list: `clone_{}` in a name is that of the link.

    Returns:
        The links. `unknown` is the number of tensors of unknown size, and `busy` the part of a step in which
        the link carries something, from 0 to 1, or None if no time was forecast. `clone` is the number of the
        link's clone, or -1.
    """
    busy = {(each.from_device, each.to_device): each.busy for each in placement.busiest_links()}
    return [
        [
            places.of(each.from_device),
            places.of(each.to_device),
            each.tensors,
            each.bytes,
            each.bytes_unknown,
            shared[0],
            None if placement.time is None else round(busy.get((each.from_device, each.to_device), 0.0), 4),
            shared[1],
        ]
        for each in placement.transfers
        for shared in (_shared(each.largest, largest),)
    ]


def _shared(tensors: Sequence[MapTensor], known: Numbers) -> tuple[int, int]:
    """Return the number of a list of tensors, and that of the clone in their names."""
    clones = {found[1] for each in tensors for found in _OF_CLONE.finditer(each.name)}
    if len(clones) != 1:
        return known.of(tuple((each.name, each.bytes) for each in tensors)), -1
    (clone,) = clones
    names = [_OF_CLONE.sub("clone_{}", each.name) for each in tensors]
    listed = tuple((name, each.bytes) for name, each in zip(names, tensors, strict=True))
    return known.of(listed), int(clone)


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
