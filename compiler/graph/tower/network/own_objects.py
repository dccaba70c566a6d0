"""Losses, metrics, initializers and other objects that the user's Python makes, in place of Keras's own.

A function that needs nothing but the keyword arguments of the spec makes the object. A function that needs
further arguments, such as target and prediction, is the object itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.keras_private import initializer_of
from compiler.graph.session_options import helper_config
from compiler.graph.user_code import UserCode, load_function
from compiler.model.graph import ObjectiveNode
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import layers as errors
from dsl.errors import plan


class FunctionLoss(keras.Loss):  # type: ignore[misc] # Keras has no types
    """A loss whose values a function of targets and predictions computes."""

    def __init__(self, function: Callable[[Any, Any], Any], name: str) -> None:
        super().__init__(name=name)
        self.function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """Return the values of the function, one for each example or several.

        Args:
            y_true: The targets, of shape [examples, ...].
            y_pred: The predictions, of shape [examples, ...].
        """
        return self.function(y_true, y_pred)


_OBJECTS = (keras.Layer, keras.Loss, keras.Metric)  # can be called, but are no functions of two tensors


@frozen
class _Kind:
    """What a category of objects is called and how it is used."""

    noun: str
    base: type | None  # the class that its objects have, or None if any function will do
    arguments: Sequence[int] = ()  # the numbers of arguments of a function that is the object itself
    wrap: Callable[[Callable[..., Any], str], Any] = lambda function, _: function


_KINDS: Mapping[str, _Kind] = {
    "layer": _Kind("a Keras layer or model", keras.Layer),
    "loss": _Kind("a Keras loss or a function of targets and predictions", keras.Loss, (2,), FunctionLoss),
    "metric": _Kind(
        "a Keras metric or a function of targets and predictions",
        keras.Metric,
        (2,),
        lambda function, name: keras.metrics.MeanMetricWrapper(function, name=name),
    ),
    "initializer": _Kind("an initializer or a function of `shape` and `dtype`", None, (1, 2)),
    "regularizer": _Kind("a regularizer or a function of a weight", None, (1,)),
    "constraint": _Kind("a constraint or a function of a weight", None, (1,)),
    "activation": _Kind("an activation or a function of a tensor", None, (1,)),
}


def make_own(call: ir.Call, category: str, arguments: Mapping[str, Any], base: str) -> Any:
    """Return the object that `python("module:function", ...)` stands for.

    Args:
        category: What kind of object it is, such as `loss`. If it is empty, because the object is an argument
            of the user's code, any object will do, and a function that needs further arguments is one itself.
        arguments: The keyword arguments of the call, as Python has them.
        base: The folder in which the module is looked up first.

    Raises:
        RunError: There is no such function.
        SpecError: The user's code fails, or gives something else.
    """
    path = str(call.args[0])
    function = load_function(path, Path(base), call.span, of_model=True)
    user, needed = UserCode(path, call.span), _needed(function, arguments, path, call)
    if not category:
        with user.running():
            return partial(function, **arguments) if needed else function(**arguments)
    kind = _KINDS[category]
    if needed and len(needed) not in kind.arguments:
        example = ", ".join(f"{each} = ..." for each in needed)
        fault = errors.arguments_missing(
            call.span, path=path, names=needed, wanted=kind.noun, example=example
        )
        raise SpecError([fault])
    if needed and arguments and kind.base is None:
        raise SpecError([errors.arguments_not_saved(call.span, path=path, wanted=kind.noun)])
    if needed:
        return kind.wrap(partial(function, **arguments) if arguments else function, function.__name__)
    with user.running():
        made = function(**arguments)
    if kind.base is not None and isinstance(made, kind.base):
        return made
    is_other = inspect.isclass(made) or (kind.base is not None and isinstance(made, _OBJECTS))
    if not kind.arguments or not callable(made) or is_other:
        raise SpecError(
            [errors.wrong_result(call.span, path=path, wanted=kind.noun, found=type(made).__name__)]
        )
    return made if kind.base is None else kind.wrap(made, getattr(made, "__name__", function.__name__))


def require_summable(metric: Any, target: Any, prediction: Any, node: ObjectiveNode) -> None:
    """Raise SpecError if the state of a metric of the user's is not a sum over batches.

    The metric is tried on made-up batches. Its state must start from zero, and over two batches it must be
    the sum of the states over each.
    """
    generator = np.random.default_rng(0)
    with tf.Graph().as_default(), UserCode(node.label, node.span).running():
        first = [initializer_of(each)(each.shape, each.dtype) for each in metric.variables]
        zero = [tf.zeros(each.shape, each.dtype) for each in metric.variables]
        batches = [[_made_up(each, generator) for each in (target, prediction)] for _ in range(2)]
        states = [metric.stateless_update_state(zero, *batch) for batch in batches]
        states.append(metric.stateless_update_state(states[0], *batches[1]))
        with tf.compat.v1.Session(config=helper_config()) as session:
            starts, (one, other, both) = session.run((first, states))
    if any(np.any(each) for each in starts):
        raise SpecError(
            [errors.not_summable(node.span, path=node.label, reason="it does not start from zero")]
        )
    sums = [np.add(*pair) for pair in zip(one, other, strict=True)]
    if not all(np.allclose(*pair, rtol=1e-3) for pair in zip(both, sums, strict=True)):
        reason = "over two batches it is not the sum of its states over each"
        raise SpecError([errors.not_summable(node.span, path=node.label, reason=reason)])


def _made_up(like: Any, generator: np.random.Generator) -> Any:
    """Return two examples with numbers between 0 and 1 in the shape and type of a tensor."""
    shape, dtype = (2, *(each or 1 for each in like.shape[1:])), tf.as_dtype(like.dtype)
    if dtype.is_floating:
        return tf.cast(generator.random(shape), dtype)
    return tf.cast(generator.integers(0, 2, shape), dtype)


def _needed(
    function: Callable[..., Any], arguments: Mapping[str, Any], path: str, call: ir.Call
) -> list[str]:
    """Return the arguments that a function needs and the spec does not give."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions that are written in C have none
        return []
    try:
        signature.bind_partial(**arguments)
    except TypeError as fault:
        raise SpecError([plan.layer_cannot_be_made(call.span, step=path, reason=str(fault))]) from fault
    return [
        each.name
        for each in signature.parameters.values()
        if each.default is each.empty
        and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        and each.name not in arguments
    ]
