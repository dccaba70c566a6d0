"""The data of the pages of one placement map and of two."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import asdict, frozen

from compiler.figures import plural
from compiler.kinds.kind_map import AnyMap
from compiler.mapping.records import MapTensor, MapVariable, PlacementMap, RuleRef
from compiler.model.graph import ModelGraph
from compiler.process import collector_paused
from compiler.report.compare import Change, Comparison
from compiler.report.devices import device_totals
from compiler.report.diff_text import lines_of as scopes_of
from compiler.report.page.timeline import timeline_data
from compiler.report.page.tree import NONE, Details, Numbers, Tables, measures, tree_data
from dsl import ir
from dsl.files.regular import read_regular
from dsl.source import Span


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
        "step": None if details.time is None else timeline_data(details.time, details.trace),
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


# --- the model as the page draws it: boxes and arrows ------------------------------------------------------


def model_data(model: ModelGraph, files: Numbers) -> dict[str, Any]:
    """Return the boxes and the arrows between them.

    Returns:
        `boxes`, each `[scope inside a tower, what it is, kind, file, line, column]` with `input`, `layer`,
        `operation`, `weight` or `loss` for its kind, and `arrows`, each `[from, to]` by numbers of boxes.
    """
    boxes: list[list[Any]] = []
    arrows: dict[tuple[int, int], None] = {}
    maker: dict[int, int] = {}

    def add(scope: str, label: str, kind: str, span: Span | None, inputs: tuple[int, ...]) -> int:
        number = len(boxes)
        boxes.append([scope, label, kind, *_place(span, files)])
        arrows.update(dict.fromkeys((maker[each], number) for each in inputs if each in maker))
        return number

    for each in model.inputs:
        axes = ", ".join("none" if size is None else str(size) for size in each.shape)
        maker[each.value] = add(each.name, f"{each.dtype} [{axes}]", "input", each.span, ())
    for call in model.calls:
        layer = model.layers[call.layer]
        kind = layer.kind if layer.kind in {"operation", "weight"} else "layer"
        number = add(layer.path, layer.label, kind, layer.span, call.inputs)
        maker |= dict.fromkeys(call.values, number)
    for loss in model.losses:
        add(f"loss/{loss.name}", loss.label, "loss", loss.span, (loss.prediction, loss.target))
    return {"boxes": boxes, "arrows": [list(each) for each in arrows]}


def places_of(model: ModelGraph) -> list[Span]:
    """Return the places of the spec at which the boxes of a model are written."""
    spans = [each.span for each in model.inputs]
    spans += [each.span for each in model.layers]
    spans += [each.span for each in model.losses]
    return [each for each in spans if each is not None]


def _place(span: Span | None, files: Numbers) -> tuple[int, int, int]:
    if span is None:
        return NONE, 0, 0
    start = span.begin
    return files.of(span.source.name), start.line, start.column


# --- the lines of the spec to which a placement map refers ------------------------------------------------


Lines = Mapping[str, Mapping[int, str]]
"""Lines of specs by file and number, from 1."""

AROUND = 3
"""The number of lines that are shown before and after that of a rule."""


def rules_of(placement: AnyMap) -> Iterable[RuleRef]:
    """Return the different rules of a map; the texts of a map by kinds may be templates."""
    return dict.fromkeys(
        [each.rule for each in placement.variables_like] + [each.rule for each in placement.ops_like]
    )


def lines_of(placement: AnyMap, texts: Mapping[str, str], spans: Iterable[Span] = ()) -> Lines:
    """Return the lines of the map's rules and of other places, and those around them."""
    found: dict[str, dict[int, str]] = {}
    places = dict.fromkeys((each.file, each.line) for each in rules_of(placement))
    listed = list(spans)
    places |= dict.fromkeys((each.source.name, each.begin.line) for each in listed)
    texts = {**{each.source.name: each.source.text for each in listed}, **texts}
    split = {file: text.replace("\r\n", "\n").removesuffix("\n").split("\n") for file, text in texts.items()}
    for file, line in places:
        if file in split and line is not None:
            lines = split[file]
            for number in range(max(1, line - AROUND), min(len(lines), line + AROUND) + 1):
                found.setdefault(file, {})[number] = lines[number - 1]
    return found


def texts_of(spec: ir.Spec) -> dict[str, str]:
    """Return the texts that contain the rules of a spec, by their files."""
    sources = {rule.span.source for rule in spec.place.rules if rule.span is not None}
    return {each.name: each.text for each in sources}


def texts_on_disk(placement: AnyMap) -> dict[str, str]:
    """Return the text of the spec if the file still exists and is the one from which the map was made."""
    try:
        raw = read_regular(placement.spec.path)
    except OSError:
        return {}
    if hashlib.sha256(raw).hexdigest() != placement.spec.sha256:
        return {}
    return {placement.spec.path: raw.decode("utf-8", errors="replace")}


# --- the data of the page of two placements side by side --------------------------------------------------


SCOPES = 200
"""The most scopes by which the ops that have changed are listed."""

OPS = 2000
"""The most ops that are listed one by one; the scopes count all."""


@frozen
class Side:
    """One of two placements."""

    label: str  # what it is called: its file, with the settings that are its own
    placement: AnyMap
    lines: Lines  # the lines of its spec that are shown


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
