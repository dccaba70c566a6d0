"""Values of a type of the schema, from the expressions that were written."""

from __future__ import annotations

from typing import Any

from dsl import ir, syntax
from dsl.diagnostics import Label
from dsl.errors import references, types
from dsl.schema import Type, function
from dsl.source import Span
from dsl.suggest import nearest
from dsl.values import LARGEST_INTEGER, Quantity, kind_of
from grammar.lower import calls
from grammar.lower.context import BAD, Context
from grammar.lower.evaluate import described, evaluate, labels_of


def typed(  # noqa: PLR0911 one for each kind
    expression: syntax.Expr,
    type: Type,  # noqa: A002
    what: str,
    context: Context,
) -> Any:
    """Return the value of `expression` as `type` has it, BAD where it does not fit.

    `what` names the place, as in "`count`" or "`units` of `Dense`".
    """
    if isinstance(expression, syntax.Broken):
        return BAD
    if type.kind == "either":
        return typed(expression, _option(expression, type, context), what, context)
    if type.kind in {"call", "keras"} or (type.kind == "any" and isinstance(expression, syntax.Call)):
        return calls.called(expression, type, what, context)
    if isinstance(expression, (syntax.Call, syntax.Flow, syntax.Comparison)):
        report = types.misplaced_expression(what, type.described(), described(expression), expression.span)
        context.reports.add(report)
        return BAD
    if type.kind == "tensor":
        return _tensor(expression, what, context)
    if type.words:
        return word(expression, type, what, context)
    if type.kind in {"list", "shape"} and isinstance(expression, syntax.List):
        return _items(expression, type, what, context)
    place = _Place(type, what, expression.span, labels_of(expression, context), context)
    wanted = "" if type.kind in {"str", "any"} else f"{what} takes {type.described()}"
    return fitted(evaluate(expression, context, wanted=wanted), place)


def word(expression: syntax.Expr, type: Type, what: str, context: Context) -> Any:  # noqa: A002
    """Return the word of `type` that `expression` is, as a name, as a string, or by way of a constant."""
    if isinstance(expression, syntax.Path) and expression.bare in type.words:
        return expression.bare
    value = evaluate(expression, context, type.words)
    if value is BAD or isinstance(value, (ir.Parameter, ir.Arithmetic)):
        return value
    if value is None and (type.optional or "none" in type.words):
        return None if type.optional else "none"
    labels = labels_of(expression, context)
    if not isinstance(value, str):
        report = types.wrong_type(what, type.described(), kind_of(value), expression.span, labels)
        context.reports.add(report)
        return BAD
    if value in type.words:
        return value
    near = nearest(value, type.words)
    context.reports.add(types.invalid_choice(what, value, type.words, near, expression.span, labels))
    return BAD


class _Place:
    """Where a value goes, for the messages about it."""

    def __init__(
        self,
        type: Type,  # noqa: A002
        what: str,
        span: Span,
        labels: tuple[Label, ...],
        context: Context,
    ) -> None:
        self.type = type
        self.what = what
        self.span = span
        self.labels = labels
        self.context = context

    def item(self, type: Type) -> _Place:  # noqa: A002
        """Return the place of an item of the list that goes here."""
        return _Place(type, self.what, self.span, self.labels, self.context)

    def wrong_type(self, value: Any, advice: str | None = None) -> Any:
        """Report that `value` is of another type."""
        report = types.wrong_type(
            self.what, self.type.described(), kind_of(value), self.span, self.labels, advice
        )
        self.context.reports.add(report)
        return BAD


def fitted(value: Any, place: _Place) -> Any:  # noqa: PLR0911 one for each kind of type
    """Return `value` as the type of `place` has it, BAD where it does not fit."""
    type_ = place.type
    if value is BAD or isinstance(value, (ir.Parameter, ir.Arithmetic)):
        return value
    if value is None:
        return None if type_.optional or type_.kind == "any" else place.wrong_type(value)
    if isinstance(value, Quantity) or type_.kind == "quantity":
        return _quantity(value, place)
    if type_.kind in {"int", "float"}:
        return _number(value, place)
    if type_.kind == "shape":
        return _shape(value, place)
    if type_.kind == "list" and type_.item is not None:
        return _list(value, type_.item, place)
    if isinstance(value, str) and type_.kind == "str" and len(value.strip()) < (type_.low or 0):
        place.context.reports.add(types.empty_string(place.what, place.span, place.labels))
        return BAD
    accepted = {"bool": bool, "str": str, "any": object}[type_.kind]
    return value if isinstance(value, accepted) else place.wrong_type(value)


def _number(value: Any, place: _Place) -> Any:
    accepted = int if place.type.kind == "int" else (int, float)
    if isinstance(value, bool) or not isinstance(value, accepted):
        return place.wrong_type(value, _as_number(value))
    return _bounded(value, place)


def _as_number(value: Any) -> str | None:
    """Say how to write a number that stands there as something else."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= LARGEST_INTEGER:
        return f"write `{int(value)}`"
    if isinstance(value, str) and value.isdecimal():
        return f"write `{value}` without the quotes"
    return None


def _bounded(value: Any, place: _Place, shown: str | None = None) -> Any:
    low, high, open_ = place.type.low, place.type.high, place.type.open
    fits = (low is None or value > low or (value == low and not open_)) and (
        high is None or value < high or (value == high and not open_)
    )
    if fits:
        return value
    below = low is not None and value <= low
    bounds = (
        _bound("more than" if open_ else "at least", low)
        if below
        else _bound("less than" if open_ else "at most", high)
    )
    place.context.reports.add(
        types.out_of_range(place.what, bounds, shown or f"{value:.15g}", place.span, place.labels)
    )
    return BAD


def _bound(words: str, bound: float | None) -> str:
    return f"{words} {bound:.15g}"


def _quantity(value: Any, place: _Place) -> Any:
    type_ = place.type
    if type_.kind != "quantity" or type_.dimension is None:
        report = types.wrong_unit(place.what, type_.described(), kind_of(value), place.span, place.labels)
    elif isinstance(value, bool) or not isinstance(value, (int, float, Quantity)):
        return place.wrong_type(value)
    elif not isinstance(value, Quantity):
        report = types.missing_unit(place.what, type_.dimension, place.span, place.labels)
    elif value.dimension != type_.dimension:
        report = types.wrong_unit(place.what, type_.described(), kind_of(value), place.span, place.labels)
    else:
        amount = int(value.amount) if type_.dimension == "bytes" else value.amount
        return _bounded(amount, place, place.span.text)
    place.context.reports.add(report)
    return BAD


def _shape(value: Any, place: _Place) -> Any:
    if isinstance(value, tuple):
        items = [_shape(item, place) for item in value]
        return BAD if any(item is BAD for item in items) else tuple(items)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return place.wrong_type(value)


def _list(value: Any, item: Type, place: _Place) -> Any:
    if not isinstance(value, tuple):
        return place.wrong_type(value)
    items = [fitted(each, place.item(item)) for each in value]
    return BAD if any(each is BAD for each in items) else tuple(items)


def _items(expression: syntax.List, type: Type, what: str, context: Context) -> Any:  # noqa: A002
    """Read a list that stands there in full, so that each fault points to its item."""
    if type.kind == "list" and type.item is not None:
        item = type.item
        values = [typed(each, item, f"an item of {what}", context) for each in expression.items]
    else:
        part = Type("shape", optional=True)
        values = [typed(each, part, f"an item of {what}", context) for each in expression.items]
    return BAD if any(value is BAD for value in values) else tuple(values)


def _option(expression: syntax.Expr, type: Type, context: Context) -> Type:  # noqa: A002
    """Choose the one of several types that the shape of an expression speaks for."""
    kinds: dict[str, Type] = {option.kind: option for option in type.options}
    value = None
    if isinstance(expression, (syntax.Path, syntax.Chain, syntax.Number, syntax.Negative)):
        value = evaluate(expression, context.silent())
    if isinstance(expression, syntax.Call) or _names_function(expression, kinds.get("call")):
        wanted = "keras" if "keras" in kinds else "call"
    elif isinstance(expression, syntax.List) or isinstance(value, tuple):
        wanted = "list"
    elif isinstance(value, Quantity):
        wanted = "quantity"
    else:
        wanted = type.options[0].kind
    return kinds.get(wanted, type.options[0])


def _names_function(expression: syntax.Expr, type: Type | None) -> bool:  # noqa: A002
    """Whether an expression is the name of a function that a type takes calls of, without brackets."""
    name = expression.bare if isinstance(expression, syntax.Path) else None
    return type is not None and name is not None and function(type.of, name) is not None


def _tensor(expression: syntax.Expr, what: str, context: Context) -> Any:
    """Return the name of a tensor of the examples."""
    if isinstance(expression, syntax.Path) and expression.bare is not None:
        name = expression.bare
    elif isinstance(expression, syntax.Text):
        name = expression.value
    else:
        found = described(expression)
        context.reports.add(types.misplaced_expression(what, "the name of a tensor", found, expression.span))
        return BAD
    known = context.tensors
    if known is not None and name not in known:
        near = nearest(name, known)
        context.reports.add(references.unknown_tensor(name, expression.span, near, sorted(known)))
        return BAD
    return name
