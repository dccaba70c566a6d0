"""Make an update rule from a call of the spec, such as `Adam(learning_rate = ...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from compiler.graph.optimizers.base import Optimizer
from compiler.graph.optimizers.table import OPTIMIZERS
from compiler.graph.tower.network.network import first_sentence, make
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors.meaning import references
from dsl.errors.planning import plan as errors
from dsl.schema import signatures


def make_optimizer(call: ir.Call) -> Optimizer:
    """Return the update rule for a call of the spec.

    Raises:
        SpecError: The optimizer has no such argument, or Keras refuses a value.
    """
    entry = OPTIMIZERS[call.name]
    arguments = _arguments(call)
    rate = arguments.pop("learning_rate", None)
    settings = _settings(call, entry.keras_class, {**entry.defaults, **arguments})
    rule = entry.rule(settings)
    return rule(settings, _learning_rate(call, rate))


def _arguments(call: ir.Call) -> dict[str, Any]:
    """Return the arguments by name, with whole numbers as floats if Keras requires floats."""
    signature = signatures.find("optimizer", call.name)
    assert signature is not None
    names = [each.name for each in signature.positional]
    given = {**dict(zip(names, call.args, strict=False)), **call.kwargs}
    found: dict[str, Any] = {}
    for name, value in given.items():
        argument = signature.argument(name)
        if argument is None:
            span = call.kwarg_spans.get(name, call.span)
            raise SpecError([references.unknown_argument(call.name, name, span, None, names)])
        found[name] = float(value) if argument.kind == "float" and isinstance(value, int) else value
    return found


def _settings(call: ir.Call, maker: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    with tf.Graph().as_default():  # Keras makes variables for its step count, which are not used
        try:
            return maker(**arguments)
        except (TypeError, ValueError) as fault:
            raise SpecError(
                [errors.layer_cannot_be_made(call.name, first_sentence(fault), call.span)]
            ) from fault


def _learning_rate(call: ir.Call, rate: Any) -> Any:
    """Return the rate as a number or as a Keras schedule; it is Keras's default if the call has none."""
    if isinstance(rate, ir.Call):
        return make(rate, "schedule")
    if rate is not None:
        return rate
    signature = signatures.find("optimizer", call.name)
    argument = signature.argument("learning_rate") if signature is not None else None
    return argument.default if argument is not None else None
