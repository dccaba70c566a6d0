"""Variables of checkpoints: one of the graph, or several that are the pieces of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from attrs import field, frozen

from compiler.shards import Shard


@frozen
class CutVariable:
    """A tensor of a checkpoint that is several variables in the graph.

    Attributes:
        shards: The pieces.
        variables: The variable of each piece.
    """

    shards: tuple[Shard, ...]
    variables: tuple[Any, ...] = field(repr=False)

    @property
    def shape(self) -> tf.TensorShape:
        """The shape of the whole tensor."""
        return tf.TensorShape(self.shards[0].whole)

    @property
    def dtype(self) -> tf.DType:
        """The type."""
        return self.variables[0].dtype


Saved = Any
"""A tf.Variable or a CutVariable."""


def variables_of(saved: Saved) -> tuple[Any, ...]:
    """Return the variables of the graph that a tensor of a checkpoint consists of."""
    return saved.variables if isinstance(saved, CutVariable) else (saved,)


def pieces_of(saved: Saved, value: np.ndarray) -> list[np.ndarray]:
    """Return the values of the variables of a tensor, from the value of the whole tensor.

    Args:
        saved: The tensor, as one variable or as several.
        value: The value of the whole tensor, in its shape.
    """
    if isinstance(saved, CutVariable):
        return [np.reshape(value, each.cut_shape)[each.index] for each in saved.shards]
    return [value]


def whole_of(saved: Saved, values: Sequence[np.ndarray]) -> np.ndarray:
    """Return the value of a whole tensor, from those of its variables."""
    if isinstance(saved, CutVariable):
        return np.concatenate(values, saved.shards[0].axis).reshape(saved.shards[0].whole)
    return values[0]


def read_saved(run: Callable[[Any], Any], saved: Mapping[str, Saved]) -> dict[str, np.ndarray]:
    """Return the values of tensors by name."""
    found = run({name: list(variables_of(each)) for name, each in saved.items()})
    return {name: whole_of(each, found[name]) for name, each in saved.items()}


def assign(run: Callable[..., Any], saved: Mapping[str, Saved], values: Mapping[str, np.ndarray]) -> None:
    """Give tensors new values by name, each of the whole tensor in its shape.

    A value is fed in place of the initial one. A moving average starts from the tensor of its weight, so that
    it has its turn after that.
    """
    while values:
        ops: list[tf.Operation] = []
        feed: dict[tf.Tensor, np.ndarray] = {}
        later = {}
        for name, value in values.items():
            own = [each.initializer for each in variables_of(saved[name])]
            if any(op.inputs[1] in feed for op in own):
                later[name] = value
                continue
            ops += own
            feed |= zip((op.inputs[1] for op in own), pieces_of(saved[name], value), strict=True)
        run(ops, feed)
        values = later
