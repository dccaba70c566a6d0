"""The `let` block: constants, computed in the order in which they need each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl import syntax
from dsl.errors import names, references
from dsl.schema import BLOCKS
from grammar.lower.blocks import check_label, once
from grammar.lower.context import BAD, Context
from grammar.lower.expressions.evaluate import evaluate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.source import Span

RESERVED = {"true": "it is a constant", "false": "it is a constant", "none": "it is a constant"}


def declare(block: syntax.Block, context: Context) -> None:
    """Add the constants of `let` to the scope and compute their values.

    Args:
        block: The block as it was parsed.
        context: The scope, and the reports to which errors are added.
    """
    check_label(block, BLOCKS["let"], context)
    first: dict[str, Span] = {}
    for item in block.items:
        if isinstance(item, syntax.Attribute):
            if item.name in RESERVED:
                context.reports.add(names.reserved(item.name_span, name=item.name, why=RESERVED[item.name]))
            elif once(item.name, item.name_span, first, "constant", context):
                context.constants[item.name] = item
        elif not isinstance(item.value if isinstance(item, syntax.Entry) else None, syntax.Broken):
            context.reports.add(names.misplaced_entry(item.span, place="`let`", takes="`name = value`"))
    for name in list(context.constants):
        _resolve(name, context)


def _resolve(name: str, context: Context) -> None:
    """Compute a constant and those that it needs, without recursion, because chains may be long."""
    path: dict[str, None] = {name: None}
    waiting: list[Iterator[str]] = [_needed(context.constants[name].value, context)]
    while path:
        following = next((each for each in waiting[-1] if each not in context.values), None)
        if following is None:
            waiting.pop()
            done, _ = path.popitem()
            if done not in context.values:
                context.values[done] = _value(context.constants[done].value, context)
        elif following in path:
            _report_cycle([*path][[*path].index(following) :], context)
        else:
            path[following] = None
            waiting.append(_needed(context.constants[following].value, context))


def _value(written: syntax.Expr, context: Context) -> Any:
    """Return the value of a constant, or BAD if it was guessed, so that its uses are not reported."""
    value = evaluate(written, context)
    return BAD if context.reports.is_tainted(written.span) else value


def _report_cycle(circle: list[str], context: Context) -> None:
    spans = [context.constants[name].value.span for name in circle]
    context.reports.add(references.cycle("constant", circle, spans[0], spans[1:]))
    for name in circle:
        context.values[name] = BAD


def _needed(expression: syntax.Expr, context: Context) -> Iterator[str]:
    names_ = [name for name in _names(expression) if name in context.constants]
    return iter(names_)


def _names(expression: syntax.Node) -> Iterator[str]:
    match expression:
        case syntax.Path():
            if expression.bare is not None:
                yield expression.bare
        case syntax.List() | syntax.Chain() | syntax.Negative():
            for part in syntax.parts_of(expression):
                yield from _names(part)
