"""Parts of a network that are no layers of Keras: functions of `keras.ops`, and free weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import keras
from attrs import frozen


@frozen
class Operation:
    """A function of `keras.ops`, or `getitem` for an index of a tensor; it has no weights.

    Attributes:
        function: Its name in `keras.ops`, with dots if it is in a module there (`image.resize`).
        name: The name of its ops.
    """

    function: str
    name: str

    @property
    def target(self) -> Callable[..., Any]:
        """The function itself."""
        if self.function == "getitem":
            return _part
        found: Callable[..., Any] = reduce(getattr, self.function.split("."), keras.ops)
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function gives for tensors and plain values."""
        return self.target(*args, **kwargs)


def _part(tensor: Any, index: Sequence[Any]) -> Any:
    """Return a part of a tensor."""
    return tensor[tuple(index)]


class FreeWeight(keras.Layer):  # type: ignore[misc] # Keras has no types
    """A trainable tensor that is the same for all examples. It takes the size of the batch from its input."""

    def __init__(
        self,
        shape: Sequence[int],
        initializer: Any = "glorot_uniform",
        regularizer: Any = None,
        constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.shape = tuple(shape)
        self.initializer = keras.initializers.get(initializer)
        self.regularizer = keras.regularizers.get(regularizer)
        self.constraint = keras.constraints.get(constraint)

    def build(self, input_shape: Any) -> None:
        """Make the weight."""
        del input_shape
        self.weight = self.add_weight(
            name="weight",
            shape=self.shape,
            initializer=self.initializer,
            regularizer=self.regularizer,
            constraint=self.constraint,
        )

    def call(self, inputs: Any) -> Any:
        """Return the weight once for each example of `inputs`."""
        examples = keras.ops.shape(inputs)[0]
        return keras.ops.broadcast_to(self.weight, (examples, *self.shape))


class PlainWeight:
    """A free weight made of Keras's own layers, so that a saved model can be loaded by Keras alone.

    It is a dense layer without a bias that works on a one for each example. The kernel has the values of the
    weight, in one row.
    """

    def __init__(self, weight: FreeWeight) -> None:
        self.shape = weight.shape
        self.dense = keras.layers.Dense(
            prod(self.shape), use_bias=False, name=weight.name, trainable=weight.trainable
        )

    def __call__(self, inputs: Any) -> Any:
        """Return the weight once for each example of `inputs`."""
        first = inputs[(slice(None), *(0 for _ in inputs.shape[1:]))]
        if inputs.dtype == "string":  # TensorFlow makes no ones like texts
            first = keras.layers.Hashing(2, name=f"{self.dense.name}_examples")(first)
        ones = keras.ops.ones_like(first, dtype=self.dense.dtype)
        return keras.ops.reshape(self.dense(keras.ops.expand_dims(ones, -1)), (-1, *self.shape))
