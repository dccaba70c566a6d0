"""Inlay hints: names of positional arguments, batch of all clones, shapes of tensors, what rules place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from compiler import topology
from compiler.towers import batches, clone_count
from dsl import schema, syntax
from grammar.cursor import cursor_at
from tfdeploy.lsp import scope
from tfdeploy.lsp.known import shapes_of, written
from tfdeploy.lsp.slots import function_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dsl import ir
    from dsl.schema import Function
    from tfdeploy.lsp.documents import Document
    from tfdeploy.lsp.known import Placed

_Kind = types.InlayHintKind


def hints(
    document: Document,
    trees: Sequence[syntax.File],
    spec: ir.Spec | None,
    placed: Mapping[int, Placed],
    range_: types.Range,
) -> list[types.InlayHint]:
    """Return the hints for a range.

    Args:
        document: The document.
        trees: The syntax trees of its spec.
        spec: The spec, or None if it has errors.
        placed: What the rules of the document have placed, by their lines.
        range_: The range.
    """
    start, end = document.positions.offset(range_.start), document.positions.offset(range_.end)
    layers = scope.layer_functions(trees)
    found = [
        types.InlayHint(document.positions.position(offset), f"{name}:", _Kind.Parameter, padding_right=True)
        for item in document.tree.items
        for call in syntax.within(item)
        if isinstance(call, syntax.Call) and call.span.end >= start and call.span.start <= end
        for offset, name in _positional(document, call, layers)
    ]
    if spec is not None:
        found += _of_spec(document, spec)
    for block in syntax.blocks_in(document.tree.items, "place"):
        for rule in block.items:
            known = placed.get(rule.span.begin.line)
            if known is not None and known.short:
                at = document.positions.position(rule.span.end)
                found.append(types.InlayHint(at, known.short, padding_left=True))
    return [each for each in found if start <= document.positions.offset(each.position) <= end]


def _positional(
    document: Document, call: syntax.Call, layers: Mapping[str, Function]
) -> Iterator[tuple[int, str]]:
    """Yield the places and names of the positional arguments of a call with several arguments."""
    given = [each for each in call.arguments if each.name is None]
    if not given or len(call.arguments) == 1:
        return
    cursor = cursor_at(document.text, given[0].span.start)
    if not cursor.around or cursor.around[0].shape != "call":
        return
    function = function_at(cursor, layers, 0)
    name = call.callee.name
    if function is None or name.startswith("ops.") or schema.measure(name) is not None:
        return
    for row, argument in zip(function.positional, given, strict=False):
        value = argument.value
        if not (isinstance(value, syntax.Path) and value.bare == row.name):
            yield argument.span.start, row.name


def _of_spec(document: Document, spec: ir.Spec) -> Iterator[types.InlayHint]:
    """Yield the hints of what follows from the whole spec."""
    known = shapes_of(spec)
    for block in syntax.blocks_in(document.tree.items, "model"):
        for item in syntax.attributes_in(block.items):
            if item.name in known and isinstance(item.value, syntax.Flow):
                at = document.positions.position(item.name_span.end)
                yield types.InlayHint(at, f": {written(known[item.name])}", _Kind.Type)
    for block in syntax.blocks_in(document.tree.items, "clones"):
        for item in syntax.attributes_in(block.items, "batch", "global_batch"):
            said = _batch(spec, item.name)
            if said is not None:
                at = document.positions.position(item.span.end)
                yield types.InlayHint(at, said, padding_left=True)


def _batch(spec: ir.Spec, name: str) -> str | None:
    """Return how many examples all clones together, or each of them, get for a step."""
    declared = spec.devices.jobs or spec.devices.gpu is not None or spec.devices.cpu is not None
    if not declared or spec.update.accumulate > 1:
        return None
    count = clone_count(spec, topology.declare(spec.devices, 0))
    each = batches(spec.clones, count, 1)
    if name == "batch":
        return f"{sum(each)} for all {count} clones" if count > 1 else None
    return f"{each[0]} for each of {count} clones" if len(set(each)) == 1 and count > 1 else None
