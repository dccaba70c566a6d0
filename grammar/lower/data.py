"""The `data` block."""

from __future__ import annotations

from typing import Any

from dsl import ir, schema, syntax
from dsl.errors import references, types
from dsl.schema import BLOCKS
from dsl.schema import types as kinds
from dsl.suggest import nearest
from grammar.lower import blocks, calls
from grammar.lower.context import BAD, Context
from grammar.lower.evaluate import described
from grammar.lower.typed import typed

SPLITS = ("train", "validation", "test")
_FIXED = {"images": ("image", "label"), "cifar10": ("image", "label"), "mnist": ("image", "label")}


def data(block: syntax.Block, context: Context) -> ir.Data | None:
    """Return the splits; None where something in them is wrong."""
    known = BLOCKS["data"]
    values: dict[str, Any] = {}
    spans = {}
    for item in blocks.own_items(block, known, context):
        if not isinstance(item, syntax.Attribute):
            continue
        spans[item.name] = item.value.span
        if item.name in SPLITS:
            values[item.name] = _split(item, context)
        else:
            row = known.attribute(item.name)
            values[item.name] = (
                None if row is None else typed(item.value, row.type, f"`{item.name}`", context)
            )
    if any(value is BAD for value in values.values()):
        return None
    return ir.Data(**values, span=block.header, spans=spans)


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
    return ir.Split(item.name, source, tuple(transforms), span=item.span)  # type: ignore[arg-type] # one of SPLITS


def _source(written: syntax.Expr, context: Context) -> Any:
    if isinstance(written, syntax.Broken):
        return BAD
    if not isinstance(written, syntax.Call):
        report = types.misplaced_expression(
            "a split", "a source such as `csv(...)`", described(written), written.span
        )
        context.reports.add(report)
        return BAD
    return calls.called(written, kinds.call("source"), "a split", context)


def _transform(step: syntax.Expr, context: Context) -> Any:
    if isinstance(step, syntax.Broken):
        return BAD
    if isinstance(step, syntax.Path) and step.bare is not None:
        if schema.function("transform", step.bare) is not None:
            context.reports.add(references.not_called("transform", step.bare, step.span))
        else:
            near = nearest(step.bare, schema.function_names("transform"))
            context.reports.add(references.unknown_function("transform", step.bare, step.span, near))
        return BAD
    if not isinstance(step, syntax.Call):
        context.reports.add(types.misplaced_expression("a step", "a transform", described(step), step.span))
        return BAD
    return calls.called(step, kinds.call("transform"), "a step", context)


def tensors_of(source: ir.Call) -> frozenset[str] | None:
    """Return the names of the tensors that a source gives; None where only reading it can tell."""
    if source.name in _FIXED:
        return frozenset(_FIXED[source.name])
    if source.name == "python" or (source.name == "npz" and not source.kwargs):
        return None
    function = schema.function("source", source.name)
    own = () if function is None else tuple(each.name for each in function.arguments)
    return frozenset(name for name in source.kwargs if name not in own)


def renamed(tensors: frozenset[str], transform: ir.Call) -> frozenset[str]:
    """Return the names of the tensors after a transform."""
    if transform.name != "rename":
        return tensors
    return (tensors - {str(old) for old in transform.kwargs.values()}) | frozenset(transform.kwargs)
