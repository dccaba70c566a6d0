"""The `data` block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsl import ir, schema, syntax
from dsl.errors import references, types
from dsl.schema import BLOCKS
from dsl.schema import types as kinds
from dsl.schema.data_functions import renamed, tensors_of
from dsl.suggest import nearest
from grammar.lower import blocks
from grammar.lower.context import BAD, Context
from grammar.lower.expressions import values
from grammar.lower.expressions.evaluate import described
from grammar.lower.expressions.values import typed

if TYPE_CHECKING:
    from dsl.source import Span

SPLITS = ("train", "validation", "test")


def data(block: syntax.Block, context: Context) -> ir.Data | None:
    """Lower the `data` block; return None if it has errors.

    Args:
        block: The block as it was parsed.
        context: The scope, and the reports to which errors are added.
    """
    known = BLOCKS["data"]
    given: dict[str, Any] = {}
    spans: dict[str, Span] = {}
    fields = blocks.Fields(given, spans)
    for item in blocks.own_items(block, known, fields, context):
        if not isinstance(item, syntax.Attribute):
            continue
        spans[item.name] = item.value.span
        if item.name in SPLITS:
            given[item.name] = _split(item, context)
        else:
            row = known.attribute(item.name)
            given[item.name] = None if row is None else typed(item.value, row.type, f"`{item.name}`", context)
    if fields.bad:
        return None
    return ir.Data(**given, span=block.header, spans=spans)


def _split(item: syntax.Attribute, context: Context) -> Any:
    flow = item.value
    steps = flow.steps if isinstance(flow, syntax.Flow) else ()
    source = _source(flow.source if isinstance(flow, syntax.Flow) else flow, context)
    tensors = None if source is BAD else tensors_of(source)
    transforms: list[Any] = []
    for step in steps:
        call = _transform(step, context.within(tensors=tensors))
        transforms.append(call)
        tensors = None if call is BAD or tensors is None else renamed(tensors, call)
    if source is BAD or any(each is BAD for each in transforms):
        return BAD
    made = ir.Split(item.name, source, tuple(transforms), span=item.span)  # type: ignore[arg-type] # one of SPLITS
    context.notes.splits.append(made)
    return made


def _source(written: syntax.Expr, context: Context) -> Any:
    if isinstance(written, syntax.Broken):
        return BAD
    if not isinstance(written, syntax.Call):
        report = types.misplaced_expression(
            written.span,
            what="a split",
            takes="a source such as `csv(...)`",
            found=described(written),
        )
        context.reports.add(report)
        return BAD
    return values.called(written, kinds.call("source"), "a split", context)


def _transform(step: syntax.Expr, context: Context) -> Any:
    if isinstance(step, syntax.Broken):
        return BAD
    if isinstance(step, syntax.Path) and step.bare is not None:
        if schema.function("transform", step.bare) is not None:
            context.reports.add(references.not_called(step.span, kind="transform", name=step.bare))
        else:
            near = nearest(step.bare, schema.function_names("transform"))
            context.reports.add(references.unknown_function("transform", step.bare, step.span, near))
        return BAD
    if not isinstance(step, syntax.Call):
        context.reports.add(
            types.misplaced_expression(step.span, what="a step", takes="a transform", found=described(step))
        )
        return BAD
    return values.called(step, kinds.call("transform"), "a step", context)
