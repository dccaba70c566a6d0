"""The blocks `data` and `update`, and the block `weights` in `train`."""

from __future__ import annotations

from typing import Any

from dsl import ir, schema, syntax
from dsl.errors import names, references
from dsl.schema import BLOCKS
from dsl.schema import types as kinds
from dsl.schema.data_functions import renamed, tensors_of
from grammar.lower import blocks, values
from grammar.lower.context import BAD, Context, all_of
from grammar.lower.evaluate import misplaced_value
from grammar.lower.values import typed

# --- data -------------------------------------------------------------------------------------------------


def data(block: syntax.Block, context: Context) -> ir.Data | None:
    """Lower the `data` block; return None if it has errors."""
    known, fields = BLOCKS["data"], blocks.Fields()
    for item in blocks.own_items(block, known, fields, context):
        if isinstance(item, syntax.Attribute) and item.name in ir.SPLITS:
            fields.values[item.name], fields.spans[item.name] = _split(item, context), item.value.span
        elif isinstance(item, syntax.Attribute):
            blocks.attribute(item, known, fields, context)
    return None if fields.bad else ir.Data(**fields.values, span=block.header, spans=fields.spans)


def _split(item: syntax.Attribute, context: Context) -> Any:
    first, steps = syntax.source_and_steps(item.value)
    source = _source(first, context)
    tensors = None if source is BAD else tensors_of(source)
    transforms: list[Any] = []
    for step in steps:
        call = _transform(step, context.within(tensors=tensors))
        transforms.append(call)
        tensors = None if call is BAD or tensors is None else renamed(tensors, call)
    if source is BAD or any(each is BAD for each in transforms):
        return BAD
    made = ir.Split(item.name, source, tuple(transforms), span=item.span)  # type: ignore[arg-type] # one of ir.SPLITS
    context.notes.splits.append(made)
    return made


def _source(written: syntax.Expr, context: Context) -> Any:
    if not isinstance(written, syntax.Call):
        return misplaced_value(written, "a split", "a source such as `csv(...)`", context)
    return values.called(written, kinds.call("source"), "a split", context)


def _transform(step: syntax.Expr, context: Context) -> Any:
    if isinstance(step, syntax.Path) and step.bare is not None:
        if schema.function("transform", step.bare) is not None:
            return context.refuse(references.not_called(step.span, kind="transform", name=step.bare))
        known = schema.function_names("transform")
        return context.refuse(references.unknown_function("transform", step.bare, step.span, known))
    if not isinstance(step, syntax.Call):
        return misplaced_value(step, "a step", "a transform", context)
    return values.called(step, kinds.call("transform"), "a step", context)


# --- update, with the optimizers of groups of weights -----------------------------------------------------


def update(block: syntax.Block, context: Context) -> ir.Update | None:
    """Return the record of the block, or None if a part of it is wrong."""
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

    def advice(item: syntax.Item) -> str | None:
        several = isinstance(item, syntax.Entry) and isinstance(item.value, syntax.Flow)
        one = "one optimizer for all weights is `optimizer = SGD(0.1)`, an attribute of `update`"
        return None if several else one

    return [*blocks.entries(block, _NAME, syntax.Flow, _group, '`"glob" -> optimizer`', context, advice)]


def _group(flow: syntax.Flow, context: Context) -> Any:
    if len(flow.steps) > 1:
        return None
    optimizer = typed(flow.steps[0], kinds.keras(_NAME), f"`{_NAME}`", context)
    if not isinstance(flow.source, syntax.Text):
        return misplaced_value(flow.source, "a rule", "a glob in quotes before the `->`", context)
    if optimizer is BAD:
        return BAD
    return ir.OptimizerRule(flow.source.value, optimizer, span=flow.span, name_span=flow.source.span)


# --- weights: files from which parts of the model start ---------------------------------------------------


def part_weights(train: syntax.Block, context: Context) -> tuple[ir.PartWeights, ...] | None:
    """Lower the rules of all blocks `weights` in a block `train`."""
    found: list[Any] = []
    for block in syntax.blocks_in(train.items, "weights"):
        found += blocks.entries(
            block, "weights", syntax.Flow, _part, '`"glob" -> "file"`', context, whole=True
        )
    rules = all_of(found)
    return None if rules is BAD else rules


def _part(value: syntax.Flow, context: Context) -> Any:
    if len(value.steps) != 1:
        return None
    pattern = typed(value.source, kinds.string(filled=True), "the glob of a rule in `weights`", context)
    file = typed(value.steps[0], kinds.path(), "the file of a rule in `weights`", context)
    if pattern is BAD or file is BAD:
        return BAD
    return ir.PartWeights(pattern, file, span=value.span)
