"""Parts of a network that are no layers of Keras: functions of `keras.ops`, and free weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import keras
from attrs import frozen

from compiler.graph.adapters.keras_private import maker_of

JOINING = frozenset({"append", "concatenate", "dstack", "hstack", "stack"})
"""Functions that put tensors of equally many axes beside each other."""


@frozen
class Operation:
    """A function of `keras.ops`, or `getitem` for an index of a tensor; it has no weights."""

    function: str  # its name in `keras.ops`, with dots if it is in a module there (`image.resize`)
    name: str

    @property
    def target(self) -> Callable[..., Any]:
        """The function itself."""
        if self.function == "getitem":
            return _part
        return reduce(getattr, self.function.split("."), keras.ops)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function gives for tensors and plain values."""
        return self.target(*args, **kwargs)


def _part(tensor: Any, index: Sequence[Any]) -> Any:
    """Return a part of a tensor. A tensor in the index, of which there is one at most, chooses along an axis.

    Rows that are chosen from a weight are looked up, so that its gradient has rows.
    """
    at = next((at for at, each in enumerate(index) if hasattr(each, "dtype")), None)
    if at is None:
        return tensor[tuple(index)]
    chosen, others = index[at], [*index[:at], slice(None), *index[at + 1 :]]
    dtype = keras.backend.standardize_dtype(chosen.dtype)
    if not keras.backend.is_int_dtype(dtype):
        raise ValueError(f"an index takes whole numbers, not {dtype}")
    if dtype not in ("int32", "int64"):
        chosen = keras.ops.cast(chosen, "int32")
    axis = at - len(index) if ... in index[:at] else at
    if any(each is not ... and each != slice(None) for each in others):
        tensor = tensor[tuple(others)]
    return keras.ops.take(tensor, chosen, axis=axis)


class FreeWeight(keras.Layer):  # type: ignore[misc] # Keras has no types
    """A trainable tensor that is the same for all examples."""

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
        """Return the weight, whatever the inputs are: Keras calls no layer without any."""
        del inputs
        return self.weight.value


def for_each_example(value: Any, examples: Any) -> Any:
    """Return a tensor without a batch axis once for each example, in the shape [examples, ...]."""
    return keras.ops.broadcast_to(value, (examples, *value.shape))


class PlainExamples:
    """What depends on the number of examples in a functional Keras model, made of an input of the model.

    Keras saves and loads it without this package.
    """

    def __init__(self, inputs: Any) -> None:
        first = inputs[(slice(None), *(0 for _ in inputs.shape[1:]))]
        if inputs.dtype == "string":  # TensorFlow makes no ones like texts
            first = keras.layers.Hashing(2)(first)
        self.every = keras.ops.ones_like(first, dtype="bool")
        self.one = keras.ops.ones_like(keras.ops.any(self.every, keepdims=True), dtype="float32")

    def repeated(self, value: Any) -> Any:
        """Return a tensor without a batch axis once for each example."""
        every = keras.ops.reshape(self.every, (-1, *(1 for _ in value.shape)))
        return keras.ops.where(every, value, value)


class PlainWeight:
    """A free weight made of Keras's own layers, so that a saved model can be loaded by Keras alone.

    It is a dense layer without a bias that works on a single one. The kernel has the values of the weight, in
    one row.
    """

    def __init__(self, weight: FreeWeight) -> None:
        self.shape = weight.shape
        self.dense = keras.layers.Dense(
            prod(self.shape),
            use_bias=False,
            kernel_initializer=_of_keras(weight.initializer) or "glorot_uniform",
            kernel_regularizer=_of_keras(weight.regularizer),
            name=weight.name,
            trainable=weight.trainable,
        )

    def __call__(self, one: Any) -> Any:
        """Return the weight, made of a tensor of shape [1] with a one."""
        return keras.ops.reshape(self.dense(keras.ops.expand_dims(one, -1)), self.shape)


def _of_keras(made: Any) -> Any:
    """Return an object if Keras alone can load it, else None."""
    return made if type(made).__module__.startswith("keras.") else None


_WEIGHT = ("Reshape", "Dense", "ExpandDims", "OnesLike", "Any")
"""What makes a PlainWeight of the examples, from its end."""


def plain_weight_of(tensor: Any) -> Any:
    """Return the dense layer of a PlainWeight that makes a symbolic tensor; None if none does."""
    layer = None
    for kind in _WEIGHT:
        operation, node, _ = maker_of(tensor)
        if type(operation).__name__ != kind:
            return None
        layer = operation if kind == "Dense" else layer
        tensor = node.input_tensors[0]
    return None if layer is None or layer.use_bias else layer


def one_of_repeated(tensor: Any) -> Any:
    """Return the tensor that `PlainExamples.repeated` has repeated; any other tensor as it is."""
    operation, node, _ = maker_of(tensor)
    if type(operation).__name__ != "Where":
        return tensor
    *_, one, other = node.input_tensors
    return one if one is other and len(one.shape) + 1 == len(tensor.shape) else tensor
