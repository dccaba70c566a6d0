"""From the use of a name to its definition and back, over all files of a spec; and renaming."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lsprotocol import types

from dsl import schema, syntax
from dsl.schema import signatures
from dsl.values import CONSTANTS
from grammar.lower.devices import KINDS
from grammar.lower.network.flows import SPECIAL
from grammar.lower.training import SPLITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tfdeploy.lsp.names import Names, Place, Symbol, Use

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)


class CannotRenameError(ValueError):
    """Raised if a name cannot be changed to another one; the text says why."""


def definitions(at: Place) -> list[types.Location]:
    """Return where the name at a place is defined."""
    return [] if at.use is None else _locations(at, at.names.definitions(at.use.symbol))


def references(at: Place, *, with_definition: bool) -> list[types.Location]:
    """Return where the name at a place is used, in all files of the spec."""
    return _locations(at, [each for each in _same_name(at) if with_definition or not each.is_definition])


def _locations(at: Place, uses: Iterable[Use]) -> list[types.Location]:
    return [at.documents.location(each.span) for each in uses]


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
