"""The values of a `layer` block's parameters, in each use of the block."""

from __future__ import annotations

from collections.abc import Mapping
from operator import is_

from attrs import evolve

from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import types
from dsl.values import CannotCalculateError, calculate, negate


def own_arguments(block: ir.LayerBlock, call: ir.Call) -> dict[str, ir.Value]:
    """Return the arguments of the use of a block that are not parameters of it."""
    parameters = {each.name for each in block.parameters}
    return {key: value for key, value in call.kwargs.items() if key not in parameters}


def arguments(block: ir.LayerBlock, call: ir.Call, outer: Mapping[str, ir.Value]) -> dict[str, ir.Value]:
    """Return the values of a block's parameters in one use of it.

    Raises:
        SpecError: An argument is arithmetic without a result.
    """
    values = {each.name: each.default for each in block.parameters if each.has_default}
    values |= {
        each.name: evaluate(value, outer) for each, value in zip(block.parameters, call.args, strict=False)
    }
    values |= {key: evaluate(value, outer) for key, value in call.kwargs.items() if key != "name"}
    return values


def with_values(call: ir.Call, parameters: Mapping[str, ir.Value]) -> ir.Call:
    """Return `call` with its parameters replaced by their values."""
    args = _evaluated(call.args, parameters)
    kwargs = {key: evaluate(value, parameters) for key, value in call.kwargs.items()}
    if args is call.args and all(kwargs[key] is value for key, value in call.kwargs.items()):
        return call
    return evolve(call, args=args, kwargs=kwargs)


def _evaluated(values: tuple[ir.Value, ...], parameters: Mapping[str, ir.Value]) -> tuple[ir.Value, ...]:
    found = tuple(evaluate(each, parameters) for each in values)
    return values if all(map(is_, found, values)) else found


def evaluate(value: ir.Value, parameters: Mapping[str, ir.Value]) -> ir.Value:
    """Return a value in which parameters have been replaced, and arithmetic has been done.

    Raises:
        SpecError: The arithmetic has no result.
    """
    if isinstance(value, ir.Parameter):
        return parameters[value.name]
    if isinstance(value, ir.Arithmetic):
        left = evaluate(value.left, parameters)
        right = None if value.right is None else evaluate(value.right, parameters)
        return _calculated(value, left, right)
    if isinstance(value, tuple):
        return _evaluated(value, parameters)
    if isinstance(value, ir.Call):
        return with_values(value, parameters)
    return value


def _calculated(expression: ir.Arithmetic, left: ir.Value, right: ir.Value) -> int | float:
    """Return the value of an expression; raise SpecError if it has none, as a division by zero has."""
    try:
        found = negate(left) if right is None else calculate(expression.operator, left, right)
    except CannotCalculateError as reason:
        raise SpecError([types.no_result(expression.span, why=str(reason))]) from reason
    return _plain_number(found)


def _plain_number(value: object) -> int | float:
    """Return the result of arithmetic on layer parameters, which have no units."""
    if not isinstance(value, int | float):
        raise TypeError("arithmetic on layer parameters gave no plain number")
    return value
