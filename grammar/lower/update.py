"""The block `update`, with the optimizers of groups of weights."""

from __future__ import annotations

from typing import Any

from dsl import ir, syntax
from dsl.errors import names, types
from dsl.schema import BLOCKS
from dsl.schema import types as kinds
from grammar.lower import blocks
from grammar.lower.context import BAD, Context
from grammar.lower.expressions.evaluate import described
from grammar.lower.expressions.values import typed


def update(block: syntax.Block, context: Context) -> ir.Update | None:
    """Return the record of the block, or None if a part of it is wrong.

    Args:
        block: The block as it was parsed.
        context: The scope, and the reports to which errors are added.
    """
    known, fields = BLOCKS["update"], blocks.Fields()
    groups: list[Any] = []
    first: syntax.Attribute | syntax.Block | None = None
    for item in blocks.own_items(block, known, fields, context):
        if isinstance(item, syntax.Attribute):
            blocks.attribute(item, known, fields, context)
        if isinstance(item, syntax.Block):
            groups += _groups(item, context)
        if isinstance(item, syntax.Block) or (isinstance(item, syntax.Attribute) and item.name == _NAME):
            if first is not None:
                report = names.duplicate("optimizer", _NAME, _name_span(item), _name_span(first))
                context.reports.add(report)
                groups.append(BAD)
            first = first or item
    if fields.bad or any(each is BAD for each in groups):
        return None
    return ir.Update(**fields.values, groups=tuple(groups), span=block.header, spans=fields.spans)


_NAME = "optimizer"


def _name_span(item: syntax.Attribute | syntax.Block) -> Any:
    return item.name_span if isinstance(item, syntax.Attribute) else item.kind_span


def _groups(block: syntax.Block, context: Context) -> list[Any]:
    """Return the rules of a block `optimizer`, BAD for each that is wrong."""
    blocks.check_label(block, BLOCKS[_NAME], context)
    return [_group(item, context) for item in block.items]


def _group(item: syntax.Item, context: Context) -> Any:
    flow = item.value if isinstance(item, syntax.Entry) else None
    if isinstance(flow, syntax.Broken):
        return BAD
    if not isinstance(flow, syntax.Flow) or len(flow.steps) > 1:
        span = item.name_span if isinstance(item, syntax.Attribute) else item.span
        advice = "one optimizer for all weights is `optimizer = SGD(0.1)`, an attribute of `update`"
        several = isinstance(flow, syntax.Flow)
        report = names.misplaced_entry(
            span, place=f"`{_NAME}`", takes=_FORM, advice=None if several else advice
        )
        context.reports.add(report)
        return BAD
    optimizer = typed(flow.steps[0], kinds.keras(_NAME), f"`{_NAME}`", context)
    if isinstance(flow.source, syntax.Broken):
        return BAD
    if not isinstance(flow.source, syntax.Text):
        report = types.misplaced_expression(
            flow.source.span,
            what="a rule",
            takes="a glob in quotes before the `->`",
            found=described(flow.source),
        )
        context.reports.add(report)
        return BAD
    if optimizer is BAD:
        return BAD
    return ir.OptimizerRule(flow.source.value, optimizer, span=flow.span, name_span=flow.source.span)


_FORM = '`"glob" -> optimizer`'
