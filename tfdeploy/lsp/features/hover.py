"""Hover and signature help: what the word at a place means, and the arguments of the call around it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from lsprotocol import types

from dsl import schema, syntax
from dsl.schema import Function
from grammar.cursor import cursor_at
from tfdeploy.lsp import describe, slots
from tfdeploy.lsp.features.completion import described
from tfdeploy.lsp.names import Names, Place, Use
from tfdeploy.lsp.slots import Slot, function_around, function_of, slot_at

_REST = re.compile(r"\w*")
_NOUNS = {
    "constant": "constant",
    "layer": "layer block",
    "binding": "tensor of the model",
    "shared": "layer that is shared by its steps",
    "input": "input of the model",
    "parameter": "parameter of the layer block",
    "metric": "metric",
    "job": "job of the cluster",
    "example": "tensor of the examples",
}


def hover(
    at: Place, more: Callable[[Use], Sequence[str]] = lambda _: (), of_line: Sequence[str] = ()
) -> types.Hover | None:
    """Return what the word at a place means, or None if nothing is known of it."""
    positions, text = at.document.positions, at.document.text
    if at.use is not None:
        return types.Hover(_markdown(_of_name(at.use, at.names, more(at.use))), positions.span(at.use.span))
    rest = _REST.match(text, at.offset)
    end = at.offset if rest is None else rest.end()
    cursor = cursor_at(text, end)
    if not cursor.word or cursor.within is not None:
        return None
    layers = slots.layer_functions(at.trees)
    said = _of_word(cursor.word, slot_at(cursor, layers), layers)
    if said is None:
        return None
    return types.Hover(_markdown("\n\n".join([said, *of_line])), positions.range(end - len(cursor.word), end))


def _markdown(text: str) -> types.MarkupContent:
    return types.MarkupContent(types.MarkupKind.Markdown, text)


def _of_name(use: Use, names: Names, more: Sequence[str]) -> str:
    definition = next(iter(names.definitions(use.symbol)), use)
    item = definition.item
    text = use.span.text
    if isinstance(item, syntax.Block):
        text = f"{item.header.text} {{ ... }}"
    elif item is not None:
        text = item.span.text
    parts = [describe.code(text), f"{_NOUNS[use.symbol.kind].capitalize()} `{use.symbol.name}`."]
    return "\n\n".join([*parts, *more])


def _of_word(word: str, slot: Slot, layers: Mapping[str, Function]) -> str | None:
    if slot.function is not None and (row := slot.function.argument(word)) is not None:
        return describe.argument(row, slot.function.name)
    if slot.want == "item":
        return _of_item(word, slot.block)
    found = function_of(word, slot, layers)
    if found is not None:
        return describe.function(found, _category(word, slot))
    if slot.want in {"selector", "target"}:
        row_ = schema.selector(word) or schema.target(word)
        return None if row_ is None else f"`{word}`: {row_.doc}."
    if slot.type is not None and word in slot.type.choices:
        return (
            f"`{slot.name} = {word}`: {slot.doc}." if slot.doc else f"One of {', '.join(slot.type.choices)}."
        )
    return None


def _of_item(word: str, block: str) -> str | None:
    if not block:
        return described("block", word, {}) if word in schema.ROOT else described("attribute:", word, {})
    known = schema.BLOCKS.get(block)
    if known is not None and word in known.inner and known.attribute(word) is None:
        return described("block", word, {})
    row = schema.selector(word) if block == "place" else schema.measure(word) if block == "expect" else None
    return f"`{word}`: {row.doc}." if row is not None else described(f"attribute:{block}", word, {})


def _category(word: str, slot: Slot) -> str:
    if word.startswith("ops."):
        return "operation"
    if slot.want == "layer":
        return "application" if word.startswith("applications.") else "layer"
    if slot.want == "value" and slot.type is not None:
        return next((each.of for each in (slot.type, *slot.type.options) if each.kind == "keras"), "")
    return slot.want


def signature_help(at: Place) -> types.SignatureHelp | None:
    """Return the arguments of the call around a place, and which of them the place is in."""
    cursor = cursor_at(at.document.text, at.offset)
    if cursor.within == "comment":
        return None
    layers = slots.layer_functions(at.trees)
    for level, around in enumerate(cursor.around):
        if around.shape == "block":
            return None
        if around.shape == "call":
            function = function_around(cursor, layers, level)
            return None if function is None else _signature(function, around.argument)
    return None


def _signature(function: Function, argument: str | int) -> types.SignatureHelp:
    rows = [
        types.ParameterInformation(text, row.doc or row.type.described())
        for text, row in zip(describe.parameters(function), function.arguments, strict=False)
    ]
    active: int | None = None
    if isinstance(argument, str):
        active = next((at for at, row in enumerate(function.arguments) if row.name == argument), None)
    elif argument < len(function.positional):
        active = function.arguments.index(function.positional[argument])
    shown = types.SignatureInformation(
        describe.signature(function), function.doc or None, rows, len(rows) if active is None else active
    )
    return types.SignatureHelp([shown], 0, shown.active_parameter)
