"""Quantities with units, and the arithmetic of the language."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from operator import add, mul, sub, truediv
from typing import Any, Literal, TypeAlias

from attrs import frozen

Dimension: TypeAlias = Literal["bytes", "seconds", "fraction"]

UNITS: dict[str, tuple[Dimension, float]] = {
    "B": ("bytes", 1),
    "kB": ("bytes", 1000),
    "KB": ("bytes", 1000),
    "MB": ("bytes", 1000**2),
    "GB": ("bytes", 1000**3),
    "TB": ("bytes", 1000**4),
    "KiB": ("bytes", 1024),
    "MiB": ("bytes", 1024**2),
    "GiB": ("bytes", 1024**3),
    "TiB": ("bytes", 1024**4),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1),
    "min": ("seconds", 60),
    "h": ("seconds", 3600),
    "d": ("seconds", 86400),
    "%": ("fraction", 0.01),
}
"""Each unit with what it measures and how many bytes, seconds or wholes it is."""

EXAMPLES: dict[Dimension, str] = {"bytes": "16GiB", "seconds": "10min", "fraction": "10%"}
NOUNS: dict[Dimension, str] = {"bytes": "a size", "seconds": "a duration", "fraction": "a percentage"}

FEATURE = "feature(float32, [3])"
"""How a tensor of the examples is written, for messages."""

LARGEST_INTEGER = 2**63 - 1

CONSTANTS = {"true": True, "false": False, "none": None}
"""The words of the language that stand for values; nothing else can have such a name."""


@frozen
class Quantity:
    """A number with a unit."""

    amount: float
    dimension: Dimension


class CannotCalculateError(ArithmeticError):
    """The operands cannot be combined, or there is no result; the text says why."""


def quantity(value: float, unit: str) -> Quantity:
    """Return `value` of `unit` in the base unit; a KeyError for a unit that there is not."""
    dimension, factor = UNITS[unit]
    amount = value / 100 if dimension == "fraction" else value * factor
    return Quantity(_whole(amount) if dimension == "bytes" else float(amount), dimension)


def units_of(dimension: Dimension) -> tuple[str, ...]:
    """Return the units that measure `dimension`, smallest first."""
    return tuple(unit for unit, (measured, _) in UNITS.items() if measured == dimension)


_OPERATORS: dict[str, Callable[[float, float], float]] = {"+": add, "-": sub, "*": mul, "/": truediv}


def calculate(operator: str, left: Any, right: Any) -> Any:
    """Return `left operator right` for `+ - * /` on numbers and quantities.

    Two integers divided without remainder give an integer (`64 / 2` is 32), others a float. Raises
    CannotCalculateError.
    """
    for operand in (left, right):
        if not isinstance(operand, (int, float, Quantity)) or isinstance(operand, bool):
            raise CannotCalculateError(f"there is no arithmetic with {kind_of(operand)}")
    if isinstance(left, Quantity) or isinstance(right, Quantity):
        return _with_units(operator, left, right)
    return _plain(operator, left, right)


def kind_of(value: Any) -> str:
    """Say what kind of value `value` is, with its article."""
    if value is None:
        return "`none`"
    if isinstance(value, Quantity):
        return NOUNS[value.dimension]
    kinds = {
        bool: "`true` or `false`",
        int: "a whole number",
        float: "a number",
        str: "a string",
        tuple: "a list",
    }
    return kinds.get(type(value), "a call")


def _plain(operator: str, left: float, right: float) -> float:
    if operator == "/" and right == 0:
        raise CannotCalculateError("this divides by zero")
    if operator == "/" and isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    result = _OPERATORS[operator](left, right)
    if isinstance(result, int) and abs(result) > LARGEST_INTEGER:
        raise CannotCalculateError("the result is larger than a whole number can be")
    if not isfinite(result):
        raise CannotCalculateError("the result is larger than a number can be")
    return result


def _with_units(operator: str, left: Quantity | float, right: Quantity | float) -> Quantity | float:
    if isinstance(left, Quantity) and isinstance(right, Quantity):
        if left.dimension == right.dimension and operator == "/":
            return _plain("/", left.amount, right.amount)
        if left.dimension == right.dimension and operator != "*":
            return Quantity(_plain(operator, left.amount, right.amount), left.dimension)
    elif isinstance(left, Quantity) and not isinstance(right, Quantity) and operator in {"*", "/"}:
        return _scaled(_plain(operator, left.amount, right), left.dimension)
    elif isinstance(right, Quantity) and not isinstance(left, Quantity) and operator == "*":
        return _scaled(_plain("*", left, right.amount), right.dimension)
    raise CannotCalculateError(f"{kind_of(left)} and {kind_of(right)} cannot be joined by `{operator}`")


def _scaled(amount: float, dimension: Dimension) -> Quantity:
    return Quantity(_whole(amount) if dimension == "bytes" else amount, dimension)


def _whole(amount: float) -> float:
    return int(amount) if isfinite(amount) and amount == int(amount) else amount
