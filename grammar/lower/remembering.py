"""Lowers a binding, unless it is remembered from the last reading and stays as it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import fields

from dsl import ir, syntax
from dsl.source import Span
from grammar.lower.context import BAD
from grammar.lower.memory import Remembered
from grammar.lower.notes import Notes
from grammar.reports import Reports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from grammar.lower.context import Context
    from grammar.lower.memory import Scope

_NAME = re.compile(r"[^\W\d]\w*")


def scope_of(block: str, kinds: Mapping[str, str], context: Context) -> Scope | None:
    """Return the scope of a block after noting what its names mean, or None if nothing is remembered.

    Args:
        block: The name of the block.
        kinds: What the bindings of the block are.
        context: The other names.
    """
    if context.memory is None:
        return None
    scope = context.memory.scope(block)
    doubtful = dict.fromkeys((*context.notes.incomplete, *context.notes.doubtful), True)
    layers = {name: each.parameters for name, each in context.layers.items()}
    constants = {name: context.values.get(name, BAD) for name in context.constants}
    scope.read(kinds, constants, context.parameters, layers, doubtful)
    return scope


def lowered(
    item: syntax.Attribute,
    needed: tuple[str, ...],
    scope: Scope,
    context: Context,
    lower: Callable[[Context], Any],
) -> Any:
    """Return what a binding becomes, or BAD if it has an error.

    Args:
        item: The binding.
        needed: The names in its expression that other bindings may have.
        scope: The scope of its block.
        context: The names in scope.
        lower: Lowers the binding in a context.
    """
    known = item.memory
    if known is not None and known.scope is scope and scope.is_as_before(known.names, known.reading):
        known.reading = scope.reading
        context.notes.include(known.notes)
        return known.binding
    item.memory = None
    if context.reports.is_tainted(item.span):
        return lower(context)
    notes = Notes(
        unknown=context.notes.unknown, incomplete=context.notes.incomplete, doubtful=context.notes.doubtful
    )
    reports = Reports()
    try:
        made = lower(context.within(reports=reports, notes=notes))
    finally:
        for each in reports.found:
            context.reports.add(each)
    context.notes.include(notes)
    if made is not BAD and not reports.found and not notes.splits:
        tree = {id(span) for span in syntax.spans_in(item)}
        spans = [span for span in _spans(made) if id(span) not in tree]
        if all(item.span.start <= each.start and each.end <= item.span.end for each in spans):
            names = frozenset(_NAME.findall(item.span.text))
            item.memory = Remembered(names, needed, scope, scope.reading, made, notes, spans)
    return made


# --- places -----------------------------------------------------------------------------------------------


def _spans(value: object) -> list[Span]:
    """Return all places in a record of the IR, each once."""
    found: dict[int, Span] = {}
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Span):
            found[id(each)] = each
        elif isinstance(each, tuple | list):
            waiting.extend(each)
        elif isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, ir.Node):
            waiting.extend(getattr(each, field_.name) for field_ in fields(type(each)))
    return list(found.values())
