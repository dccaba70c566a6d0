"""Evaluates expressions (numbers, lists, arithmetic, names), and checks that values fit their place."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from attrs import define, evolve

from dsl import ir, syntax
from dsl.diagnostics import Label
from dsl.errors import references, types
from dsl.files.regular import scheme_of
from dsl.schema import Type
from dsl.schema.types import DAY, PATH, TERABYTE
from dsl.source import Span
from dsl.suggest import nearest
from dsl.values import (
    LARGEST_INTEGER,
    UNITS,
    CannotCalculateError,
    Quantity,
    calculate,
    kind_of,
    quantity,
    units_of,
)
from grammar.lower.context import BAD, Bad, Context, all_of

_SHORTEST = 2


def evaluate(  # noqa: PLR0911 one for each kind
    expression: syntax.Expr, context: Context, words: tuple[str, ...] = (), wanted: str = ""
) -> Any:
    """Return the value of an expression, or BAD if it has an error.

    Returns:
        A number, string, bool, None, tuple or quantity; or, if it contains layer parameters, a Parameter or
        Arithmetic of the
        IR.
    """
    match expression:
        case syntax.Number():
            return _number(expression, context)
        case syntax.Text() | syntax.Constant():
            return expression.value
        case syntax.Path():
            return _name(expression, context, words, wanted)
        case syntax.List():
            return all_of([evaluate(item, context, words) for item in expression.items])
        case syntax.Chain():
            return _chain(expression, context)
        case syntax.Negative():
            return _negative(expression, context)
    return misplaced_value(expression, "this place", "a value", context)


_KINDS: dict[type[syntax.Node], str] = {
    syntax.Flow: "a flow",
    syntax.Comparison: "a comparison",
    syntax.Range: "a range",
    syntax.Path: "a name",
    syntax.TensorIndex: "an index of a tensor",
    syntax.Indexed: "an index of a tensor",
}


def described(expression: syntax.Expr) -> str:
    """Describe the kind of an expression, for messages."""
    if isinstance(expression, syntax.Call):
        return f"a call of `{expression.callee.name}`"
    return _KINDS.get(type(expression), "an expression")


def misplaced_value(
    expression: syntax.Expr,
    what: str,
    takes: str,
    context: Context,
    *,
    found: str | None = None,
    advice: str | None = None,
) -> Bad:
    """Report an expression in a place that takes something else, unless it is broken; return BAD."""
    if isinstance(expression, syntax.Broken):
        return BAD
    found = found or described(expression)
    report = types.wrong_type(expression.span, what=what, takes=takes, found=found, advice=advice)
    return context.refuse(report)


def misused_name(
    path: syntax.Path, found: str, wanted: str, defined: Span | None, context: Context, advice: str = ""
) -> Bad:
    """Report the name of something that is of another kind than its place wants, and return BAD."""
    report = references.wrong_reference(
        path.span, name=path.name, found=found, wanted=wanted, defined=defined, advice=advice
    )
    return context.refuse(report)


def labels_of(expression: syntax.Expr, context: Context) -> tuple[Label, ...]:
    """Return a label at the definition if an expression is the name of a constant, else nothing."""
    if isinstance(expression, syntax.Path) and expression.bare in context.constants:
        constant = context.constants[expression.bare]
        return (Label(constant.value.span, f"`{constant.name}` is defined here"),)
    return ()


def _number(expression: syntax.Number, context: Context) -> Any:
    if expression.unit is None:
        return expression.value
    if expression.unit not in UNITS:
        start = expression.span.end - len(expression.unit)
        span = Span(expression.span.source, start, expression.span.end)
        return context.refuse(
            types.unknown_unit(span, unit=expression.unit, near=_near_unit(expression.unit))
        )
    return quantity(expression.value, expression.unit)


_COMMON = {"sec": "s", "secs": "s", "seconds": "s", "m": "min", "mins": "min", "minutes": "min", "hour": "h"}
_COMMON |= {"hours": "h", "hr": "h", "G": "GB", "Gi": "GiB", "M": "MB", "Mi": "MiB", "GiBs": "GiB"}
"""What units are often called."""


def _near_unit(unit: str) -> str | None:
    for known in UNITS:
        if known.lower() == unit.lower():
            return known
    return _COMMON.get(unit) or nearest(unit, units_of("bytes") if len(unit) > _SHORTEST else ())


def _name(path: syntax.Path, context: Context, words: tuple[str, ...], wanted: str) -> Any:
    name = path.bare
    if name is None:
        return misplaced_value(path, "this place", "a value", context, found=f"`{path.span.text}`")
    if name in context.parameters:
        return ir.Parameter(name, span=path.span)
    if name in context.constants:
        context.notes.constants.add(name)
        return context.values.get(name, BAD)
    if not context.may_exist("let") and not context.is_silent(name):
        _report_unknown(name, path, context, words, wanted)
    return BAD


_PYTHON = {"True": "true", "False": "false", "None": "none", "yes": "true", "no": "false", "null": "none"}
_PYTHON |= {"TRUE": "true", "FALSE": "false", "on": "true", "off": "none", "nil": "none"}


def _report_unknown(
    name: str, path: syntax.Path, context: Context, words: tuple[str, ...], wanted: str
) -> None:
    if name in context.bound:
        misused_name(path, "a tensor", "a constant", context.bound[name], context)
        return
    known = {*context.parameters, *context.constants}
    near = nearest(name, known)
    word = nearest(name, words)
    advice = None
    if name in _PYTHON:
        near, word, advice = None, None, f"write `{_PYTHON[name]}`"
    elif near is None and word is None and not words and not wanted:
        advice = f'if this is a string, put it in quotes: `"{name}"`'
    report = references.unknown_name(
        path.span,
        name=name,
        kind="constant",
        near=near,
        word=word,
        advice=advice,
        words=words,
        wanted="" if advice else wanted,
    )
    context.reports.add(report)


def _chain(chain: syntax.Chain, context: Context) -> Any:
    if any(isinstance(each, syntax.Broken) for each in syntax.parts_of(chain)):
        return BAD
    result = evaluate(chain.first, context)
    for operator, operand in chain.rest:
        right = evaluate(operand, context)
        if result is BAD or right is BAD:
            result = BAD
            continue
        result = _applied(operator, result, right, chain.first.span.to(operand.span), context)
    return result


def _applied(operator: Any, left: Any, right: Any, span: Span, context: Context) -> Any:
    if _symbolic(left) or _symbolic(right):
        return _with_parameters(operator, left, right, span, context)
    try:
        return calculate(operator, left, right)
    except CannotCalculateError as reason:
        return context.refuse(types.no_result(span, why=str(reason)))


def _with_parameters(operator: Any, left: Any, right: Any, span: Span, context: Context) -> Any:
    """Keep arithmetic on parameters for when they have values, which are plain numbers."""
    for operand in (left, right):
        if not _symbolic(operand) and (isinstance(operand, bool) or not isinstance(operand, (int, float))):
            reason = f"a layer parameter cannot be combined with {kind_of(operand)}"
            return context.refuse(types.no_result(span, why=reason))
    return ir.Arithmetic(operator, left, right, span=span)


def _negative(expression: syntax.Negative, context: Context) -> Any:
    operand = evaluate(expression.operand, context)
    if operand is BAD:
        return BAD
    if _symbolic(operand):
        return ir.Arithmetic("negate", operand, span=expression.span)
    return _applied("*", -1, operand, expression.span, context)


def _symbolic(value: Any) -> bool:
    return isinstance(value, (ir.Parameter, ir.Arithmetic))


# --- values that fit their place --------------------------------------------------------------------------


@define
class ValuePlace:
    """The place of a value, for the messages about it."""

    type: Type
    what: str
    span: Span
    labels: tuple[Label, ...]
    context: Context

    def wrong_type(self, value: Any, advice: str | None = None) -> Any:
        """Report that a value has the wrong type; return BAD."""
        return self.context.refuse(
            types.wrong_type(
                self.span,
                what=self.what,
                takes=self.type.described(),
                found=kind_of(value),
                labels=self.labels,
                advice=advice,
            )
        )


def fitted(value: Any, place: ValuePlace) -> Any:  # noqa: C901, PLR0911 one for each kind of type
    """Convert a value to the type of its place; return BAD, after a report, if that is not possible."""
    type_ = place.type
    if value is BAD or isinstance(value, (ir.Parameter, ir.Arithmetic)):
        return value
    if value is None:
        return None if type_.optional or type_.kind == "any" else place.wrong_type(value)
    if isinstance(value, Quantity) or type_.kind == "quantity":
        return _quantity(value, place)
    if type_.kind in {"int", "float"}:
        return _fitted_number(value, place)
    if type_.kind == "shape":
        return _shape(value, place)
    if type_.kind == "list" and type_.item is not None:
        return _fitted_list(value, type_.item, place)
    if isinstance(value, str) and type_.kind == "str" and len(value.strip()) < (type_.low or 0):
        return place.context.refuse(types.empty_string(place.span, what=place.what, labels=place.labels))
    if isinstance(value, str) and type_.of == PATH and scheme_of(value) is not None:
        return place.context.refuse(types.address(place.what, value, place.span, place.labels))
    if isinstance(value, bool):
        return _truth(value, place)
    if type_.kind == "any" and isinstance(value, int | float):
        return _bounded(value, place)
    accepted = {"bool": bool, "str": str, "any": object}[type_.kind]
    return value if isinstance(value, accepted) else place.wrong_type(value)


def _truth(value: bool, place: ValuePlace) -> Any:
    if place.type.kind not in {"bool", "any"}:
        return place.wrong_type(value)
    only = place.type.only
    if only is None or value is only:
        return value
    return place.context.refuse(
        types.not_in_a_clone(place.span, what=place.what, only=only, labels=place.labels)
    )


def _fitted_number(value: Any, place: ValuePlace) -> Any:
    accepted = int if place.type.kind == "int" else (int, float)
    if isinstance(value, bool) or not isinstance(value, accepted):
        return place.wrong_type(value, _as_number(value))
    return _bounded(value, place)


def _as_number(value: Any) -> str | None:
    """Return how to write a number that is written as something else, or None."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_INTEGER:
        return f"write `{int(value)}`"
    if isinstance(value, str) and value.isdecimal():
        return f"write `{value}` without the quotes"
    return None


def _bounded(value: Any, place: ValuePlace, shown: str | None = None) -> Any:
    low, high, open_ = place.type.low, place.type.high, place.type.open
    if isinstance(value, int):  # TensorFlow has no larger ones
        low = -LARGEST_INTEGER if low is None else low
        high = LARGEST_INTEGER if high is None else high
    fits = (low is None or value > low or (value == low and not open_)) and (
        high is None or value < high or (value == high and not open_)
    )
    if fits:
        return value
    below = low is not None and value <= low
    written = str(value) if isinstance(value, int) else f"{value:.15g}"
    bounds = (
        _bound("more than" if open_ else "at least", low, place.type)
        if below
        else _bound("less than" if open_ else "at most", high, place.type)
    )
    return place.context.refuse(
        types.out_of_range(
            place.span, what=place.what, bounds=bounds, found=shown or written, labels=place.labels
        )
    )


_UNITS = {"seconds": (DAY, "d"), "bytes": (TERABYTE, "TB")}


def _bound(words: str, bound: float | None, of: Type) -> str:
    if of.dimension == "fraction":
        return f"{words} {bound:.0%}"
    unit, sign = _UNITS.get(of.dimension or "", (0, ""))
    if bound and unit and bound >= unit:
        return f"{words} {bound // unit:.0f}{sign}"
    return f"{words} {bound}" if isinstance(bound, int) else f"{words} {bound:.15g}"


def _quantity(value: Any, place: ValuePlace) -> Any:
    wanted = place.type.dimension
    if wanted is None or (isinstance(value, Quantity) and value.dimension != wanted):
        takes, found = place.type.described(), kind_of(value)
        report = types.wrong_unit(place.span, what=place.what, takes=takes, found=found, labels=place.labels)
        return place.context.refuse(report)
    if isinstance(value, Quantity):
        whole = wanted == "bytes" and isfinite(value.amount)
        return _bounded(int(value.amount) if whole else value.amount, place, place.span.text)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return place.wrong_type(value)
    return place.context.refuse(types.missing_unit(place.what, wanted, place.span, place.labels))


def _shape(value: Any, place: ValuePlace) -> Any:
    if isinstance(value, tuple):
        if not has_length(value, place):
            return BAD
        inner = evolve(place, type=evolve(place.type, length=None))
        return all_of([_shape(item, inner) for item in value])
    if isinstance(value, int) and not isinstance(value, bool):
        return _bounded(value, place)
    return place.wrong_type(value)


def has_length(items: Sequence[Any], place: ValuePlace) -> bool:
    """Whether a list has as many items as its place takes; report it if not."""
    wanted = place.type.length
    if wanted is None or len(items) == wanted:
        return True
    place.context.reports.add(
        types.list_length(place.span, what=place.what, wanted=wanted, found=len(items), labels=place.labels)
    )
    return False


def _fitted_list(value: Any, item: Type, place: ValuePlace) -> Any:
    if not isinstance(value, tuple):
        return place.wrong_type(value)
    return all_of([fitted(each, evolve(place, type=item)) for each in value])
