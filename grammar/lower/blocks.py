"""What all blocks have in common: each attribute occurs once and has the type of the schema; and `let`."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from attrs import field, frozen

from dsl import schema, syntax
from dsl.errors import names, references
from dsl.schema import ALTERNATIVES, BLOCKS, Block
from dsl.source import Span
from dsl.suggest import nearest
from dsl.values import CONSTANTS
from grammar.lower.context import BAD, Context
from grammar.lower.evaluate import evaluate
from grammar.lower.values import typed
from grammar.tokens.lexer import LONGEST_NAME

Key = TypeVar("Key", bound="Hashable")


@frozen
class Fields:
    """The attributes of a block as they were written."""

    values: dict[str, Any] = field(factory=dict)
    spans: dict[str, Span] = field(factory=dict)
    refused: list[syntax.Item] = field(factory=list)

    @property
    def bad(self) -> bool:
        """Whether any item was refused or any value has an error."""
        return bool(self.refused) or any(value is BAD for value in self.values.values())


_KEEP = "`batch` is for each clone, `global_batch` for all together: keep one"
_ONE_OF_TWO = {
    "clones": ("`clones`", _KEEP),
    "train": ("`train`", "keep the one that says how long to train"),
    "job": ("the job", "leave `tasks` out: it is the number of hosts"),
}
"""Blocks that have one of two attributes, in words, and what to do if they have both."""


def attributes(block: syntax.Block, known: Block, context: Context) -> Fields:
    """Lower a block that has attributes only."""
    fields = Fields()
    for item in own_items(block, known, fields, context):
        if isinstance(item, syntax.Attribute):
            attribute(item, known, fields, context)
    first, second = ALTERNATIVES.get(known.name, ("", ""))
    if first in fields.spans and second in fields.spans:
        span, other = fields.spans[second], fields.spans[first]
        place, advice = _ONE_OF_TWO[known.name]
        context.reports.add(
            names.conflicting(span, first=first, second=second, place=place, other=other, advice=advice)
        )
        if known.name == "job":  # of which it is not known then how many devices there are
            fields.refused.append(block)
    return fields


def attribute(item: syntax.Attribute, known: Block, fields: Fields, context: Context) -> None:
    """Lower one attribute and add it to `fields`."""
    row = known.attribute(item.name)
    if row is not None:
        fields.values[item.name] = typed(item.value, row.type, f"`{item.name}`", context)
        fields.spans[item.name] = item.value.span


def own_items(block: syntax.Block, known: Block, fields: Fields, context: Context) -> list[syntax.Item]:
    """Return the items that are allowed in a block, each name once; report the others."""
    check_label(block, known, context)
    kept: list[syntax.Item] = []
    first: dict[str, Span] = {}
    for item in block.items:
        if _belongs(item, known, first, context):
            kept.append(item)
        else:
            fields.refused.append(item)
    return kept


def _belongs(item: syntax.Item, known: Block, first: dict[str, Span], context: Context) -> bool:
    place = f"`{known.name}`"
    if isinstance(item, syntax.Attribute):
        if known.attribute(item.name) is not None:
            return once(item.name, item.name_span, first, "attribute", context)
        unknown_attribute(item, known.names, known.inner, place, context)
    elif isinstance(item, syntax.Block):
        if item.kind in known.inner:
            return True
        unknown_block(item, known.inner, known.names, place, context)
    elif not isinstance(item.value, syntax.Broken):
        misplaced(item, place, context)
    return False


def misplaced(item: syntax.Entry, place: str, context: Context) -> None:
    """Report an expression in a block that has attributes only."""
    advice = None
    if isinstance(item.value, syntax.Comparison) and item.value.operator == "==":
        advice = "one `=` gives a name its value"
    context.reports.add(names.misplaced_entry(item.span, place=place, takes="`name = value`", advice=advice))


Kind = TypeVar("Kind", bound=syntax.Node)


def entries(
    block: syntax.Block,
    name: str,
    kind: type[Kind],
    read: Callable[[Kind, Context], Any],
    takes: str,
    context: Context,
    advise: Callable[[syntax.Item], str | None] = lambda _: None,
    *,
    whole: bool = False,
) -> Iterator[Any]:
    """Yield what `read` makes of each expression of the block of a name, which takes those of a kind only.

    Another item is reported, unless it is broken, and so is an expression of which `read` makes None. BAD is
    in its place. An attribute is reported at the `whole` of it, or at its name.
    """
    check_label(block, BLOCKS[name], context)
    for item in block.items:
        value = item.value if isinstance(item, syntax.Entry) else None
        made = read(value, context) if isinstance(value, kind) else None
        if made is None and not isinstance(value, syntax.Broken):
            span = item.name_span if isinstance(item, syntax.Attribute) and not whole else item.span
            place, advice = f"`{name}`", advise(item)
            context.reports.add(names.misplaced_entry(span, place=place, takes=takes, advice=advice))
        yield BAD if made is None else made


def once(name: str, span: Span, first: dict[str, Span], kind: str, context: Context) -> bool:
    """Return whether `name` is defined for the first time, and report it if it is not."""
    if name in first:
        context.reports.add(names.duplicate(kind, name, span, first[name]))
        return False
    first[name] = span
    return True


def unknown_attribute(
    item: syntax.Attribute, known: tuple[str, ...], inner: tuple[str, ...], place: str, context: Context
) -> None:
    """Report an attribute that is not allowed at its place."""
    name, span = item.name, item.name_span
    near = nearest(name, known)
    homes = [block.name for block in schema.BLOCKS.values() if block.attribute(name) is not None]
    if name in inner:
        report = names.block_written_as_attribute(span, name=name)
    elif near is None and homes:
        report = names.attribute_elsewhere(span, name=name, place=place, home=homes[0])
    else:
        report = names.unknown_attribute(name, span, near, known, place)
    context.reports.add(report)


def unknown_block(
    item: syntax.Block,
    known: tuple[str, ...],
    attributes: tuple[str, ...],
    place: str | None,
    context: Context,
) -> None:
    """Report a block that is not allowed at its place."""
    context.notes.doubtful.add(item.kind)
    if item.kind in attributes:
        context.reports.add(names.attribute_written_as_block(item.kind_span, name=item.kind))
        return
    near = nearest(item.kind, known)
    inner_of = next((block.name for block in schema.BLOCKS.values() if item.kind in block.inner), None)
    span, at_top = item.kind_span, item.kind in schema.ROOT
    if near is not None or not (at_top or inner_of):
        report = names.unknown_block(span, name=item.kind, near=near, known=known, place=place)
    else:
        home = None if at_top else inner_of
        report = names.block_elsewhere(span, name=item.kind, place=place, home=home)
    context.reports.add(report)
    if near is None and at_top:
        context.reports.distrust(item.span.source)  # more likely a `}` is missing before it


def check_label(block: syntax.Block, known: Block, context: Context) -> None:
    """Report a label that is missing, superfluous, or not usable as a name of ops."""
    if known.label == "none":
        if block.label_span is not None:
            context.reports.add(names.unexpected_label(block.label_span, kind=block.kind))
    elif block.label is None or block.label_span is None:
        context.reports.add(names.missing_label(block.kind_span, kind=block.kind))
    elif not usable(block.label):
        context.reports.add(names.bad_label(block.label_span, kind=block.kind, label=block.label))


def usable(label: str) -> bool:
    """Whether a label can be part of the names of ops."""
    return len(label) <= LONGEST_NAME and re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", label) is not None


def lost_names(item: syntax.Item) -> tuple[str, ...]:
    """Return the names that an item may have been meant to define, if it has an error or is misplaced."""
    if isinstance(item, syntax.Block):
        return ()
    if isinstance(item, syntax.Attribute):
        return item.value.names if isinstance(item.value, syntax.Broken) else ()
    value = item.value.left if isinstance(item.value, syntax.Comparison) else item.value
    if isinstance(value, syntax.Path):
        return (value.segments[0].name,)
    return tuple(name for part in _parts(value) if isinstance(part, syntax.Broken) for name in part.names)


def _parts(value: syntax.Expr) -> tuple[syntax.Expr, ...]:
    """Return an expression and the expressions directly inside it."""
    match value:
        case syntax.List():
            return value.items
        case syntax.Flow():
            return (value.source, *value.steps)
        case syntax.Call():
            return tuple(argument.value for argument in value.arguments)
    return (value,)


def in_order(
    starts: Iterable[Key],
    needed: Callable[[Key], Iterable[Key]],
    report_circle: Callable[[list[Key]], None],
    *,
    first_only: bool = False,
) -> list[Key]:
    """Return things and what they need, each after those that it needs; without recursion, for long chains.

    Args:
        first_only: Whether further circles with what led to a circle are not reported.
    """
    done: dict[Key, None] = {}
    for start in starts:
        path = {start: None} if start not in done else {}
        waiting = [iter(needed(start))] if path else []
        while waiting:
            following = next((each for each in waiting[-1] if each not in done), None)
            if following is None:
                waiting.pop()
                done[path.popitem()[0]] = None
            elif following in path:
                circle = [*path][[*path].index(following) :]
                report_circle(circle)
                done.update(dict.fromkeys(path if first_only else circle))
            else:
                path[following] = None
                waiting.append(iter(needed(following)))
    return list(done)


# --- let: constants, computed in the order in which they need each other ----------------------------------


def defined(name: str, span: Span, first: dict[str, Span], kind: str, context: Context) -> bool:
    """Return whether a name is given to something, for the first time; report it if it cannot be or was."""
    if name in CONSTANTS:
        context.reports.add(names.reserved(span, name=name, why="it is a constant"))
        return False
    return once(name, span, first, kind, context)


def declare_constants(block: syntax.Block, context: Context) -> None:
    """Add the constants of `let` to the scope and compute their values."""

    def report_circle(circle: list[str]) -> None:
        spans = [context.constants[name].value.span for name in circle]
        context.reports.add(references.cycle("constant", circle, spans[0], spans[1:]))
        context.values.update(dict.fromkeys(circle, BAD))

    check_label(block, BLOCKS["let"], context)
    first: dict[str, Span] = {}
    for item in block.items:
        if isinstance(item, syntax.Attribute):
            if defined(item.name, item.name_span, first, "constant", context):
                context.constants[item.name] = item
        elif not isinstance(item.value if isinstance(item, syntax.Entry) else None, syntax.Broken):
            context.reports.add(names.misplaced_entry(item.span, place="`let`", takes="`name = value`"))
    for name in in_order(context.constants, lambda name: _needed(name, context), report_circle):
        if name not in context.values:  # else it is in a circle
            written = context.constants[name].value
            value = evaluate(written, context)
            # A value that was guessed is BAD, so that its uses are not reported.
            context.values[name] = BAD if context.reports.is_tainted(written.span) else value


def _needed(name: str, context: Context) -> list[str]:
    return [each for each in _names(context.constants[name].value) if each in context.constants]


def _names(expression: syntax.Node) -> Iterator[str]:
    match expression:
        case syntax.Path():
            if expression.bare is not None:
                yield expression.bare
        case syntax.List() | syntax.Chain() | syntax.Negative():
            for part in syntax.parts_of(expression):
                yield from _names(part)
