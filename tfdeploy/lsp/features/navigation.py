"""The structure of a text, links to files, and specs in open folders; definitions, uses and renaming."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import groupby, islice

from lsprotocol import types

from dsl import schema, syntax
from dsl.ir import SPLITS
from dsl.schema import signatures
from dsl.schema.data_functions import FILES
from dsl.source import Span
from dsl.values import CONSTANTS
from grammar import files
from grammar.cursor import parts_of_line
from grammar.lower.devices import KINDS
from grammar.lower.network.flows import SPECIAL
from tfdeploy.lsp.documents import Document, Positions, absolute, uri_of
from tfdeploy.lsp.names import Names, Place, Symbol, Use

_Symbol = types.SymbolKind
_OF_ITEMS = {"let": _Symbol.Constant, "model": _Symbol.Variable, "layer": _Symbol.Variable}


def symbols(document: Document) -> list[types.DocumentSymbol]:
    """Return the blocks of a text, each with what it defines."""
    return _symbols(document.tree.items, "", document.positions)


def _symbols(items: Iterable[syntax.Item], around: str, positions: Positions) -> list[types.DocumentSymbol]:
    return [each for item in items if (each := _symbol(item, around, positions)) is not None]


def _symbol(item: syntax.Item, around: str, positions: Positions) -> types.DocumentSymbol | None:
    if isinstance(item, syntax.Block):
        return types.DocumentSymbol(
            f"{item.kind} {item.label}" if item.label else item.kind,
            _Symbol.Class if item.kind in {"model", "layer"} else _Symbol.Namespace,
            positions.span(item.span),
            positions.span(item.label_span or item.kind_span),
            children=_symbols(item.items, item.kind, positions),
        )
    if isinstance(item, syntax.Attribute):
        names = ", ".join(name for name, _ in item.names)
        kind = _OF_ITEMS.get(around, _Symbol.Property)
        own = positions.span(item.name_span)
        return types.DocumentSymbol(
            names, kind, positions.span(item.span), own, detail=_short(item.value.span)
        )
    if around == "place" and isinstance(item.value, syntax.Flow):
        source, whole = item.value.source.span, positions.span(item.span)
        return types.DocumentSymbol(item.span.text, _Symbol.Key, whole, positions.span(source))
    return None


def _short(span: Span) -> str:
    first, _, more = span.text.partition("\n")
    return f"{first.rstrip()} ..." if more else first


def named(document: Document) -> list[types.WorkspaceSymbol]:
    """Return the blocks, constants and bindings of a text, each with its place."""
    found = []
    for block in symbols(document):
        for each in (block, *(block.children or ())):
            place = types.Location(document.uri, each.selection_range)
            container = None if each is block else block.name
            found.append(types.WorkspaceSymbol(place, each.name, each.kind, container_name=container))
    return found


def folds(document: Document) -> list[types.FoldingRange]:
    """Return the ranges that can be folded: blocks, items and lists over several lines, and comments."""
    found = [
        types.FoldingRange(start, end)
        for span in _spans(document.tree.items)
        if (start := span.begin.line - 1) < (end := span.finish.line - 1 - (span.text[-1:] in "}])"))
    ]
    lines = enumerate(document.text.split("\n"))
    for is_comment, run in groupby(lines, key=lambda numbered: _is_comment(numbered[1])):
        first, *more = (number for number, _ in run)
        if is_comment and more:
            found.append(types.FoldingRange(first, more[-1], kind=types.FoldingRangeKind.Comment))
    unique = {(each.start_line, each.end_line): each for each in found}
    return list(unique.values())


def _is_comment(line: str) -> bool:
    parts = parts_of_line(line)
    return len(parts) == 1 and parts[0].kind == "COMMENT"


def _spans(items: Iterable[syntax.Item]) -> Iterator[Span]:
    for item in items:
        yield item.span
        if isinstance(item, syntax.Block):
            yield from _spans(item.items)


def selections(document: Document, offsets: Sequence[int]) -> list[types.SelectionRange]:
    """Return for each place the ranges around it, from the word to the whole text."""
    found = []
    for offset in offsets:
        made = types.SelectionRange(document.positions.range(0, len(document.text)))
        for span in _around(document.tree.items, offset):
            range_ = document.positions.span(span)
            if range_ != made.range:
                made = types.SelectionRange(range_, made)
        found.append(made)
    return found


def _around(parts: Iterable[syntax.Node], offset: int) -> Iterator[Span]:
    """Yield the spans of the parts that contain an offset, from the outside in."""
    for part in parts:
        if part.span.start <= offset <= part.span.end:
            yield part.span
            yield from _around(syntax.parts_of(part), offset)
            name = getattr(part, "name_span", None)
            if name is not None and name.start <= offset <= name.end:
                yield name
            return


def links(document: Document) -> list[types.DocumentLink]:
    """Return the links to included files and data files that are there."""
    folder = os.path.dirname(absolute(document.path))  # noqa: PTH120 as the reader joins paths
    found = []
    for text in _paths(document.tree.items):
        path = os.path.join(folder, text.value)  # noqa: PTH118 as above
        if os.path.isfile(path):  # noqa: PTH113 Path.is_file raises for a name that is too long
            inside = types.Range(
                document.positions.position(text.span.start + 1),
                document.positions.position(text.span.end - 1),
            )
            found.append(types.DocumentLink(inside, uri_of(path), tooltip=absolute(path)))
    return found


def _paths(items: Iterable[syntax.Item]) -> Iterator[syntax.Text]:
    """Yield the strings that name files."""
    named: list[syntax.Expr] = []
    for include in syntax.attributes_in(items, "include"):
        named += include.value.items if isinstance(include.value, syntax.List) else ()
    for data in syntax.blocks_in(items, "data"):
        for split in syntax.attributes_in(data.items):
            source, _ = syntax.source_and_steps(split.value)
            paths = FILES.get(source.callee.name) if isinstance(source, syntax.Call) else None
            if isinstance(source, syntax.Call) and paths:
                named += [each.value for each in source.arguments if each.name in {None, *paths}]
    yield from (each for each in named if isinstance(each, syntax.Text))


MOST = 1_000
"""How many specs are read that the editor does not show."""

FURTHEST = 100_000
"""How many files of a folder are looked at in the search for specs."""

_LEFT_OUT = frozenset({"node_modules", "site-packages", "__pycache__"})
"""Folders in which no spec of the user is looked for, beside those whose names begin with a dot."""


def matching(query: str, shown: Sequence[Document], folders: Iterable[str]) -> list[types.WorkspaceSymbol]:
    """Return the blocks, constants and bindings of all specs whose names contain some letters."""
    found = [each for document in shown for each in named(document)]
    paths = {absolute(each.path) for each in shown}
    encoding = shown[0].encoding if shown else types.PositionEncodingKind.Utf16
    others = (path for folder in folders for path in _specs(folder))
    for path in islice((each for each in dict.fromkeys(others) if each not in paths), MOST):
        with suppress(OSError):
            there = os.stat(path)  # noqa: PTH116 a path as it is
            found += _named_in(path, (there.st_mtime_ns, there.st_size), encoding)
    return [each for each in found if query.lower() in each.name.lower()]


@lru_cache(maxsize=MOST)
def _named_in(
    path: str, _: tuple[int, int], encoding: types.PositionEncodingKind | str
) -> list[types.WorkspaceSymbol]:
    """Return what a file names, which is kept for its time and size."""
    text = files.text_of(path)
    return named(Document(uri_of(path), path, 0, text if isinstance(text, str) else "", encoding))


def _specs(folder: str) -> Iterator[str]:
    """Yield the paths of the specs below a folder; links to folders are not followed."""
    seen = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each[0] != "." and each not in _LEFT_OUT)
        seen += len(names)
        if seen > FURTHEST:
            return
        for name in sorted(names):
            if name.endswith(files.SUFFIX):
                yield absolute(os.path.join(place, name))  # noqa: PTH118 a string is wanted


_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class CannotRenameError(ValueError):
    """Raised if a name cannot be changed to another one; the text says why."""


def definitions(at: Place) -> list[types.Location]:
    """Return where the name at a place is defined."""
    found = () if at.use is None else at.names.definitions(at.use.symbol)
    return [at.documents.location(each.span) for each in found]


def references(at: Place, *, with_definition: bool) -> list[types.Location]:
    """Return where the name at a place is used, in all files of the spec."""
    found = (each for each in _same_name(at) if with_definition or not each.is_definition)
    return [at.documents.location(each.span) for each in found]


def _same_name(at: Place) -> tuple[Use, ...]:
    return () if at.use is None else at.names.of(at.use.symbol)


def highlights(at: Place) -> list[types.DocumentHighlight]:
    """Return the uses of the name at a place in its own text."""
    kinds = types.DocumentHighlightKind
    return [
        types.DocumentHighlight(
            at.document.positions.span(each.span), kinds.Write if each.is_definition else kinds.Read
        )
        for each in _same_name(at)
        if each.span.source.name == at.document.source.name
    ]


def renamable(at: Place) -> types.Range | None:
    """Return the range of the name at a place, or None if there is none that can be renamed."""
    return None if at.use is None else at.document.positions.span(at.use.span)


def rename(at: Place, name: str) -> types.WorkspaceEdit:
    """Return the edits that give the thing named at a place another name.

    Raises:
        CannotRenameError: If there is no name at the place, or if the new one would mean something else.
    """
    if at.use is None:
        raise CannotRenameError("there is no name of this spec here")
    for reason in _reasons(at.use.symbol, at.trees, at.names, name):
        raise CannotRenameError(reason)
    spans = dict.fromkeys(each.span for each in _same_name(at))
    return at.documents.edits((span, name) for span in spans)


def _reasons(symbol: Symbol, trees: Sequence[syntax.File], names: Names, name: str) -> Iterator[str]:
    """Yield why a symbol cannot have a name."""
    if not _NAME.fullmatch(name):
        yield f"`{name}` is no name: a name has letters, digits and `_`, and no digit at its start"
    if name in CONSTANTS:
        yield f"`{name}` is a constant of the language"
    if symbol.kind == "layer" and (name in SPECIAL or signatures.find("layer", name) is not None):
        yield f"there is a layer `{name}` already"
    if symbol.kind == "job" and name in KINDS:
        yield f"`{name}` is a kind of device"
    if symbol.kind in {"binding", "shared", "input"} and name in schema.BLOCKS["model"].names:
        yield f"`{name}` is an attribute of a model"
    for each in names.uses:
        known_at_both = each.symbol.block in {None, symbol.block} or symbol.block is None
        if each.is_definition and each.symbol.name == name and known_at_both and _clash(each.symbol, symbol):
            yield f"`{name}` is defined already, in line {each.span.begin.line} of {each.span.source.name}"
    if symbol.kind in {"input", "example"}:
        for split, source in _silent_splits(trees, symbol.name):
            yield f"`{split}` has the tensor `{symbol.name}` from `{source}(...)`, which names it itself"


def _clash(one: Symbol, other: Symbol) -> bool:
    """Whether two kinds of names are looked up in the same places."""
    of_values = {"constant", "parameter", "binding", "shared", "input"}
    same = one.kind == other.kind or {one.kind, other.kind} <= of_values
    return (same or {one.kind, other.kind} <= {"layer", "shared"}) and one != other


def _silent_splits(trees: Sequence[syntax.File], name: str) -> Iterator[tuple[str, str]]:
    """Yield the splits whose data does not write the name of a tensor, each with its source."""
    data = [block for tree in trees for block in syntax.blocks_in(tree.items, "data")]
    for split in (each for block in data for each in syntax.attributes_in(block.items, *SPLITS)):
        source, steps = syntax.source_and_steps(split.value)
        if isinstance(source, syntax.Call):
            calls = [each for each in steps if isinstance(each, syntax.Call) and each.callee.name == "rename"]
            if all(each.name != name for call in (source, *calls) for each in call.arguments):
                yield split.name, source.callee.name
