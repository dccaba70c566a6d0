"""Semantic tokens: what each word of a text is, if that cannot be told from the word alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

from dsl import syntax
from grammar.cursor import parts_of_line
from grammar.reports import MOST_TOKENS
from tfdeploy.lsp.settings import TOKEN_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.source import Span
    from tfdeploy.lsp.documents import Document
    from tfdeploy.lsp.names import Names

_DEFINITION, _READONLY = 1, 2

_OF_PARTS = {
    "STRING": "string",
    "OPEN_STRING": "string",
    "INTEGER": "number",
    "FLOAT": "number",
    "QUANTITY": "number",
    "COMMENT": "comment",
    "ARROW": "operator",
    "COMPARE": "operator",
    "PLUS": "operator",
    "MINUS": "operator",
    "STAR": "operator",
    "SLASH": "operator",
}
_OF_NAMES = {
    "constant": ("variable", _READONLY),
    "layer": ("class", 0),
    "binding": ("variable", 0),
    "shared": ("variable", 0),
    "input": ("variable", 0),
    "parameter": ("parameter", 0),
    "metric": ("property", 0),
    "job": ("namespace", 0),
    "example": ("variable", 0),
}


def semantic_tokens(
    document: Document, names: Names, range_: types.Range | None = None
) -> types.SemanticTokens:
    """Return the tokens of a text, or of some lines of it, as the protocol encodes them.

    Args:
        document: The document.
        names: The names in its spec.
        range_: The lines, or None for all.
    """
    kinds: dict[int, tuple[int, str, int]] = {}  # by the offset: the end, the type and the modifiers
    for offset, end, kind in _of_lines(document.text):
        kinds[offset] = (end, kind, 0)
    for item in document.tree.items:
        for node in syntax.within(item):
            for span, kind in _of_node(node):
                kinds.setdefault(span.start, (span.end, kind, 0))  # a callee is known from its call already
    for use in names.uses:
        if use.span.source.name == document.source.name:
            kind, modifiers = _OF_NAMES[use.symbol.kind]
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
