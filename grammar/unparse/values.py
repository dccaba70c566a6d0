"""The text of values of attributes and arguments."""

from __future__ import annotations

from math import inf, nextafter
from typing import TYPE_CHECKING, Any

from dsl import ir, schema
from dsl.schema import signatures
from dsl.schema.functions import keras_function
from dsl.values import UNITS, units_of

if TYPE_CHECKING:
    from dsl.schema import Function, Type
    from dsl.values import Dimension

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t"}
_STRENGTH = {"+": 1, "-": 1, "*": 2, "/": 2, "negate": 3}
_BARE = ("aggregation", "clip")
_ULPS = 8


def quoted(text: str) -> str:
    """Return a text as a string of the language."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def value(given: Any, type: Type | None = None) -> str:  # noqa: A002 the schema's word for it
    """Return a value as it is written in a place with this type.

    Args:
        given: The value, as the IR has it.
        type: The type of the place; None if it is not known, in which case quantities are plain numbers.
    """
    if isinstance(given, ir.Call):
        return call(given, type)
    if isinstance(given, (ir.Parameter, ir.Arithmetic)):
        return _arithmetic(given)
    if isinstance(given, tuple):
        item = _item(type)
        return f"[{', '.join(value(each, item) for each in given)}]"
    if isinstance(given, str):
        return given if _is_word(given, type) else quoted(given)
    if type is not None and type.kind == "quantity" and type.dimension is not None and given is not None:
        return quantity(given, type.dimension)
    return plain(given)


def plain(given: float | None) -> str:
    """Return a number, `true`, `false` or `none`."""
    return str(given).lower() if given is None or isinstance(given, bool) else repr(given)


def quantity(amount: float, dimension: Dimension) -> str:
    """Return an amount in the largest unit in which it is an integer.

    Args:
        amount: The amount in the base unit: bytes, seconds, or a fraction of one.
        dimension: What it is an amount of.
    """
    if dimension == "fraction":
        return f"{_percent(amount)}%"
    for unit in sorted(units_of(dimension), key=lambda unit: (-UNITS[unit][1], unit)):
        count = amount / UNITS[unit][1]
        if count == int(count) and count and int(count) * UNITS[unit][1] == amount:
            return f"{int(count)}{unit}"
    return f"{amount!r}{'B' if dimension == 'bytes' else 's'}"


def _percent(fraction: float) -> str:
    """Return the shortest number whose hundredth part is exactly `fraction`."""
    near = below = above = fraction * 100
    candidates = [float(f"{near:.{digits}g}") for digits in range(1, 17)]
    for _ in range(_ULPS):
        below, above = nextafter(below, -inf), nextafter(above, inf)
        candidates += [below, above]
    exact = next((each for each in [*candidates, near] if each / 100 == fraction), near)
    return str(int(exact)) if exact == int(exact) else repr(exact)


def call(given: ir.Call, type: Type | None = None) -> str:  # noqa: A002 the schema's word for it
    """Return the text of a call of a function of the language or of a Keras object, as `type` says.

    Args:
        given: The call, as the IR has it.
        type: The type of the place; None if it is not known.
    """
    if type is not None and type.kind == "either":
        type = next((option for option in type.options if option.kind in {"call", "keras"}), None)  # noqa: A001
    if type is not None and type.kind == "call" and type.of in _BARE and not given.args and not given.kwargs:
        return given.name
    return called(given, _function(given, type))


def called(given: ir.Call, function: Function | None) -> str:
    """Return the text of a call of `function`.

    Args:
        given: The call, as the IR has it.
        function: The function, which has the types of arguments; None if it is not known.
    """
    by_place = () if function is None else function.positional
    types = [each.type for each in by_place[: len(given.args)]] + [None] * (len(given.args) - len(by_place))
    arguments = [value(each, each_type) for each, each_type in zip(given.args, types, strict=True)]
    for name, each in given.kwargs.items():
        argument = None if function is None else function.argument(name)
        rest = None if function is None else function.rest
        arguments.append(f"{name} = {value(each, rest if argument is None else argument.type)}")
    return f"{given.name}({', '.join(arguments)})"


def _function(given: ir.Call, type: Type | None) -> Function | None:  # noqa: A002 the schema's word for it
    if type is not None and type.kind == "call":
        return schema.function(type.of, given.name)
    own = schema.function(type.of, given.name) if type is not None else None
    if own is not None:
        return own
    categories = (type.of,) if type is not None and type.of else signatures.CATEGORIES
    found = (signatures.find(category, given.name) for category in categories)
    signature = next((each for each in found if each is not None), None)
    return None if signature is None else keras_function(signature)


def _item(type: Type | None) -> Type | None:  # noqa: A002 the schema's word for it
    if type is not None and type.kind == "either":
        type = next((option for option in type.options if option.kind == "list"), None)  # noqa: A001
    return None if type is None else type.item


def _is_word(text: str, type: Type | None) -> bool:  # noqa: A002 the schema's word for it
    if type is None:
        return False
    options = type.options if type.kind == "either" else (type,)
    is_name = text.isascii() and all(part.isidentifier() for part in text.split("."))
    return is_name and any(text in option.words or option.kind == "tensor" for option in options)


def _arithmetic(given: Any, strength: int = 0) -> str:
    """Return an expression on parameters, in brackets if the outer operator binds more than `strength`."""
    if isinstance(given, ir.Parameter):
        return given.name
    if not isinstance(given, ir.Arithmetic):
        text = value(given)
        return f"({text})" if strength and text.startswith("-") else text
    own = _STRENGTH[given.operator]
    if given.operator == "negate":
        text = f"-{_arithmetic(given.left, own + 1)}"
    else:
        text = f"{_arithmetic(given.left, own)} {given.operator} {_arithmetic(given.right, own + 1)}"
    return f"({text})" if own < strength else text
