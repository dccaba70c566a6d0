"""Lowering: the syntax tree of a spec to the IR. Names are looked up, constants folded and types checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from attrs import frozen

from dsl import ir, schema, syntax
from dsl.checks import Facts
from dsl.errors import names
from dsl.schema import BLOCKS
from dsl.source import Span
from dsl.suggest import nearest
from grammar.lower import blocks
from grammar.lower.context import Context
from grammar.lower.devices import devices
from grammar.lower.network.layers import LayerReader
from grammar.lower.network.model import model
from grammar.lower.place import expect, place
from grammar.lower.training import data, part_weights, update
from grammar.reports import Reports


@frozen
class Lowered:
    """The result of lowering."""

    spec: ir.Spec | None
    facts: Facts


def lower(
    items: Sequence[syntax.Item],
    where: Span,
    reports: Reports,
    *,
    allow_python: bool = False,
    all_read: bool = True,
) -> Lowered:
    """Lower the items of a spec.

    Args:
        items: The items of the spec and of all files that it includes.
        all_read: Whether all included files could be read. If not, they may define names that seem to be
            missing.
    """
    constants_ = [each for block in syntax.blocks_in(items, "let") for each in block.items]
    lost = frozenset(name for item in (*items, *constants_) for name in blocks.lost_names(item))
    context = Context(reports, lost=lost, allow_python=allow_python)
    top, complete = _top(items, context)
    complete = complete and all_read
    if not complete:
        context = context.within(lost=lost | {"layer", *(() if "let" in top else ("let",))})
    if "let" in top:
        blocks.declare_constants(top["let"][0], context)
    layers = LayerReader(top.get("layer", []), context)
    layers.declare()
    parts: dict[str, Any] = {"layers": layers.read(), **_parts(top, context, complete=complete)}
    if "model" not in top and complete:
        context.reports.add(names.missing_model(where))
    whole = complete and "model" in top and all(part is not None for part in parts.values())
    return Lowered(ir.Spec(**parts) if whole else None, _facts(parts, where, context))


def _facts(parts: dict[str, Any], where: Span, context: Context) -> Facts:
    notes = context.notes
    return Facts(
        where,
        **parts,
        patterns=tuple(notes.patterns),
        inputs=tuple(notes.inputs),
        splits=tuple(notes.splits),
        constants={name: each.name_span for name, each in context.constants.items()},
        used=frozenset(notes.constants),
        used_layers=frozenset(notes.layers),
    )


_PERIODS = ("checkpoint_every", "evaluate_every")


def _simple(name: str, block: syntax.Block, context: Context) -> Any:
    """Lower a block that has plain attributes only."""
    known = BLOCKS[name]
    fields = blocks.attributes(block, known, context)
    if fields.bad or known.record is None:
        return None
    values = dict(fields.values)
    for period in _PERIODS:
        if period in values:
            values[period] = _every(values[period], fields.spans[period])
    if name == "train":
        values["part_weights"] = part_weights(block, context)
        if values["part_weights"] is None:
            return None
    return known.record(**values, span=block.header, spans=fields.spans)


def _every(value: float, span: Span) -> ir.Every:
    """Make a period: integers count steps, and durations are floats in seconds."""
    if isinstance(value, int):
        return ir.Every(steps=value, span=span)
    return ir.Every(seconds=value, span=span)


_READERS: dict[str, Callable[[syntax.Block, Context], Any]] = {
    "model": model,
    "data": data,
    "devices": devices,
    "update": update,
    "place": place,
    "expect": expect,
    "clones": partial(_simple, "clones"),
    "train": partial(_simple, "train"),
}


def _parts(top: dict[str, list[syntax.Block]], context: Context, *, complete: bool) -> dict[str, Any]:
    """Lower every block that is present; a block with errors becomes None."""
    context = context.within(jobs=_jobs(top) if complete or "devices" in top else None)
    return {name: read(top[name][0], context) for name, read in _READERS.items() if name in top}


def _jobs(top: dict[str, list[syntax.Block]]) -> frozenset[str] | None:
    items = top["devices"][0].items if "devices" in top else ()
    if any(blocks.lost_names(item) for item in items):
        return None
    labels = (block.label for block in syntax.blocks_in(items))
    return frozenset(label for label in labels if label is not None)


def _top(items: Sequence[syntax.Item], context: Context) -> tuple[dict[str, list[syntax.Block]], bool]:
    """Sort the blocks of a spec by kind, and report what is not allowed at the top level.

    The second result is false if a part could not be parsed, because any block may have been in it.
    """
    top: dict[str, list[syntax.Block]] = {}
    complete = True
    for item in items:
        if isinstance(item, syntax.Block):
            kind = _kind(item, top, context)
            complete = complete and kind is not None
            if kind is not None:
                top.setdefault(kind, []).append(item)
        elif isinstance(item, syntax.Attribute) and not blocks.lost_names(item):
            known = tuple(each.name for each in schema.ROOT_ATTRIBUTES)
            if item.name not in known:
                blocks.unknown_attribute(item, known, schema.ROOT, "a spec", context)
        else:
            complete = False
            if isinstance(item, syntax.Entry) and not isinstance(item.value, syntax.Broken):
                context.reports.add(names.misplaced_entry(item.span, place="a spec", takes="a block"))
    return top, complete


def _kind(item: syntax.Block, top: dict[str, list[syntax.Block]], context: Context) -> str | None:
    """Return the kind of a block, or the one that was probably meant, or None."""
    kind: str | None = item.kind
    if item.kind not in schema.ROOT:
        known = tuple(each.name for each in schema.ROOT_ATTRIBUTES)
        blocks.unknown_block(item, schema.ROOT, known, None, context)
        kind = nearest(item.kind, [each for each in schema.ROOT if each not in top])
    elif item.kind in top and item.kind != "layer":
        first = top[item.kind][0].kind_span
        twice = names.second_model(item.kind_span, first=first) if item.kind == "model" else None
        context.reports.add(twice or names.duplicate("block", item.kind, item.kind_span, first))
        kind = None
    return kind
