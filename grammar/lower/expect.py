"""The conditions of `expect`."""

from __future__ import annotations

from typing import Any

from dsl import ir, schema, syntax
from dsl.errors import names, placement, references, types
from dsl.schema import BLOCKS, Type
from dsl.schema import types as kinds
from dsl.schema.placement import Measure
from dsl.suggest import nearest
from grammar.lower import blocks
from grammar.lower.context import BAD, Context
from grammar.lower.devices import device_set
from grammar.lower.expressions.evaluate import described
from grammar.lower.expressions.values import typed

MEASURE_NAMES = tuple(each.name for each in schema.MEASURES)


def expect(block: syntax.Block, jobs: frozenset[str] | None, context: Context) -> ir.Expect | None:
    """Lower the `expect` block; return None if it has errors.

    Args:
        block: The block.
        jobs: The names of the jobs of the spec, or None if they could not be read.
        context: The context.
    """
    blocks.check_label(block, BLOCKS["expect"], context)
    conditions: list[Any] = []
    for item in block.items:
        value = item.value if isinstance(item, syntax.Entry) else None
        if isinstance(value, syntax.Comparison):
            conditions.append(_condition(value, jobs, context))
        else:
            if not isinstance(value, syntax.Broken):
                advice = None
                if isinstance(item, syntax.Attribute):
                    advice = "a condition compares with `==`, not `=`"
                report = names.misplaced_entry(
                    item.span,
                    place="`expect`",
                    takes="a comparison such as `memory(gpu[*]) <= 14GiB`",
                    advice=advice,
                )
                context.reports.add(report)
            conditions.append(BAD)
    if any(condition is BAD for condition in conditions):
        return None
    return ir.Expect(tuple(conditions), span=block.header)


def _condition(written: syntax.Comparison, jobs: frozenset[str] | None, context: Context) -> Any:
    call = written.left
    if isinstance(call, syntax.Broken):
        return BAD
    if isinstance(call, syntax.Path) and call.bare is not None:  # a measure without arguments, or a mistake
        call = syntax.Call(call, (), span=call.span)
    if not isinstance(call, syntax.Call):
        report = types.misplaced_expression(
            call.span,
            what="the left side",
            takes="a measure such as `memory(gpu[*])`",
            found=described(call),
        )
        context.reports.add(report)
        return BAD
    measure = schema.measure(call.callee.name)
    if measure is None:
        name = call.callee.name
        near = nearest(name, MEASURE_NAMES)
        context.reports.add(
            references.unknown_function("measure", name, call.callee.span, near, MEASURE_NAMES)
        )
        return BAD
    arguments = _arguments(call, measure.arguments, jobs, context)
    value = typed(written.right, _figure(measure), f"`{measure.name}`", context)
    if arguments is BAD or value is BAD:
        return BAD
    return ir.Condition(
        measure.name,  # type: ignore[arg-type] # one of MEASURES
        arguments,
        written.operator,  # type: ignore[arg-type] # the grammar's comparisons
        value,
        written.span.text,
        span=written.span,
    )


def _figure(measure: Measure) -> Type:
    """Return the type of the figures with which a measure can be compared: those that it can be."""
    if measure.dimension is None:
        return kinds.integer(0)
    return Type(
        "quantity", dimension=measure.dimension, low=0, high=measure.most, open=not measure.can_be_zero
    )


def _arguments(
    call: syntax.Call, wanted: tuple[str, ...], jobs: frozenset[str] | None, context: Context
) -> Any:
    if any(isinstance(each.value, syntax.Broken) for each in call.arguments):
        return BAD
    if len(call.arguments) != len(wanted) or any(each.name is not None for each in call.arguments):
        context.reports.add(placement.measure_arguments(call.callee.name, wanted, call.span))
        return BAD
    values = [
        _argument(each.value, kind, jobs, context) for each, kind in zip(call.arguments, wanted, strict=True)
    ]
    return BAD if any(value is BAD for value in values) else tuple(values)


def _argument(written: syntax.Expr, kind: str, jobs: frozenset[str] | None, context: Context) -> Any:
    if kind == "devices":
        return device_set(written, jobs, context)
    if kind == "glob":
        return typed(written, kinds.string(), "the name of the ops", context)
    return typed(written, kinds.word(kind), "the argument", context)
