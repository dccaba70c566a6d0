"""Activations with arguments, as objects that Keras can save with the layer that has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras

from compiler.graph.adapters.keras_private import operation_of
from dsl.schema import signatures

_LAYERS: Mapping[str, Callable[..., Any]] = {"relu": keras.layers.ReLU, "softmax": keras.layers.Softmax}
"""Activations whose function in `keras.ops` takes fewer arguments, or does less, than their layer."""


def activation_of(name: str, *args: Any, **kwargs: Any) -> Any:
    """Return the activation that a call such as `leaky_relu(negative_slope = 0.1)` describes.

    Returns:
        The name if there are no arguments, else an operation or a layer of Keras, to call on a tensor.

    Raises:
        TypeError: Keras takes no such arguments.
        ValueError: Keras refuses one of them.
    """
    signature = signatures.find("activation", name)
    assert signature is not None, f"{name} is in the table"
    if not args and not kwargs:
        return signature.name
    given = dict(zip((each.name for each in signature.positional), args, strict=False)) | kwargs
    if signature.name in _LAYERS:
        return _LAYERS[signature.name](**given)
    defaults = {
        each.name: each.default for each in signature.arguments
    }  # functions of `keras.ops` have others
    return operation_of(getattr(keras.ops, signature.name), **(defaults | given))
