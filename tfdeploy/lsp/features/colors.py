"""Semantic tokens, which say what each word of a text is, and inlay hints.

Hints are names of positional arguments, the batch of all clones, shapes of tensors, and what rules place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lsprotocol import types

from compiler import topology
from compiler.towers import batches, clone_count
from dsl import ir, schema, syntax
from dsl.schema import Function
from dsl.source import Span
from grammar.cursor import cursor_at, parts_of_line
from grammar.reports import MOST_TOKENS
from tfdeploy.lsp import slots
from tfdeploy.lsp.documents import Document
from tfdeploy.lsp.known import Placed, shapes_of, written
from tfdeploy.lsp.names import TYPES, Names
from tfdeploy.lsp.settings import TOKEN_TYPES
from tfdeploy.lsp.slots import function_around

_DEFINITION, _READONLY = 1, 2

_OF_PARTS = {
    **dict.fromkeys(("STRING", "OPEN_STRING"), "string"),
    **dict.fromkeys(("INTEGER", "FLOAT", "QUANTITY"), "number"),
    **dict.fromkeys(("ARROW", "COMPARE", "PLUS", "MINUS", "STAR", "SLASH"), "operator"),
    "COMMENT": "comment",
}


def semantic_tokens(
    document: Document, names: Names, range_: types.Range | None = None
) -> types.SemanticTokens:
    """Return the tokens of a text, or of some lines of it, as the protocol encodes them."""
    kinds: dict[int, tuple[int, str, int]] = {}  # by the offset: the end, the type and the modifiers
    for offset, end, kind in _of_lines(document.text):
        kinds[offset] = (end, kind, 0)
    for item in document.tree.items:
        for node in syntax.within(item):
            for span, kind in _of_node(node):
                kinds.setdefault(span.start, (span.end, kind, 0))  # a callee is known from its call already
    for use in names.uses:
        if use.span.source.name == document.source.name:
            kind, modifiers = TYPES[use.symbol.kind][1], _READONLY if use.symbol.kind == "constant" else 0
            quoted = document.text[use.span.start - 1 : use.span.start] == '"'
            if not quoted:
                modifiers |= _DEFINITION if use.is_definition else 0
                kinds[use.span.start] = (use.span.end, kind, modifiers)
    first = 0 if range_ is None else document.positions.offset(types.Position(range_.start.line, 0))
    last = len(document.text) if range_ is None else document.positions.offset(range_.end)
    data: list[int] = []
    before = types.Position(0, 0)
    for offset, (end, kind, modifiers) in sorted(kinds.items()):
        if not first <= offset <= last:
            continue
        at = document.positions.position(offset)
        column = at.character - before.character if at.line == before.line else at.character
        length = document.positions.units(offset, end)
        data += [at.line - before.line, column, length, TOKEN_TYPES.index(kind), modifiers]
        before = at
    return types.SemanticTokens(data)


def _of_lines(text: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for line in text.split("\n", MOST_TOKENS)[:MOST_TOKENS]:
        for part in parts_of_line(line):
            if part.kind in _OF_PARTS:
                yield start + part.start, start + part.end, _OF_PARTS[part.kind]
        start += len(line) + 1


def _of_node(node: syntax.Node) -> Iterator[tuple[Span, str]]:
    """Yield what the words of a node are, and those of a callee; not those of its other parts."""
    match node:
        case syntax.Block():
            yield node.kind_span, "keyword"
        case syntax.Attribute():
            yield from ((span, "property") for _, span in node.names)
        case syntax.Constant():
            yield node.span, "keyword"
        case syntax.Call():
            *folders, function = node.callee.segments
            yield from ((each.name_span, "namespace") for each in folders)
            yield function.name_span, "function"
        case syntax.Argument() if node.name_span is not None:
            yield node.name_span, "parameter"
        case syntax.Segment():
            yield node.name_span, "enumMember"


# --- inlay hints ------------------------------------------------------------------------------------------


_Kind = types.InlayHintKind


def hints(
    document: Document,
    trees: Sequence[syntax.File],
    spec: ir.Spec | None,
    placed: Mapping[int, Placed],
    range_: types.Range,
) -> list[types.InlayHint]:
    """Return the hints for a range."""
    start, end = document.positions.offset(range_.start), document.positions.offset(range_.end)
    layers = slots.layer_functions(trees)
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
    function = function_around(cursor, layers, 0)
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
