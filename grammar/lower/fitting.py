"""Checks that an evaluated value has the type in the schema."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from attrs import define, evolve

from dsl import ir
from dsl.diagnostics import Label
from dsl.errors import types
from dsl.files.regular import scheme_of
from dsl.schema import Type
from dsl.schema.types import DAY, PATH, TERABYTE
from dsl.source import Span
from dsl.values import LARGEST_INTEGER, Quantity, kind_of
from grammar.lower.context import BAD, Context


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
        return _number(value, place)
    if type_.kind == "shape":
        return _shape(value, place)
    if type_.kind == "list" and type_.item is not None:
        return _list(value, type_.item, place)
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


def _number(value: Any, place: ValuePlace) -> Any:
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
        items = [_shape(item, inner) for item in value]
        return BAD if any(item is BAD for item in items) else tuple(items)
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


def _list(value: Any, item: Type, place: ValuePlace) -> Any:
    if not isinstance(value, tuple):
        return place.wrong_type(value)
    items = [fitted(each, evolve(place, type=item)) for each in value]
    return BAD if any(each is BAD for each in items) else tuple(items)
