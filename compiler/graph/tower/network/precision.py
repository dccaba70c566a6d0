"""Mixed precision: layers compute in a type of 16 bits, and their variables remain float32.

Keras's dtype policies do this: a layer converts its inputs, and its variables when it uses them. The gradient
of a conversion is a conversion back, so gradients of variables are float32. Losses, metrics and penalties of
what layers give are computed in float32, of which a type of 16 bits has neither the digits nor the range.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.keras_private import (
    flattened_layers,
    get_keras_mask,
    keep_table_dtype,
    set_keras_mask,
)
from compiler.graph.user_code import kept_keras, set_keras


@keras.saving.register_keras_serializable("tfdeploy")
class WidePolicy(keras.DTypePolicy):  # type: ignore[misc] # Keras has no types
    """Variables of float32 with which layers compute in float64, so that rounding hides no fault."""

    def _parse_name(self, name: str) -> tuple[str, str]:
        return name.removeprefix("mixed_"), "float32"


WIDE = WidePolicy("mixed_float64")


@contextmanager
def keras_settings(precision: str) -> Iterator[None]:
    """Let layers that are made inside compute in a precision, if they say nothing else.

    Keras has one precision for the process, and other settings, all of which are restored. What a spec means
    depends neither on those that somebody's code has changed nor on those in `~/.keras/keras.json`.
    """
    usual = {"floatx": "float32", "epsilon": 1e-7, "image_data_format": "channels_last"}
    with kept_keras():
        set_keras({**usual, "dtype_policy": WIDE if precision == WIDE.name else precision})
        yield


def keep_tables(layer: keras.Layer) -> None:
    """Let embeddings convert the rows that they look up, and not the whole table at every step.

    Their gradients stay sparse because of this.
    """
    for each in flattened_layers(layer):
        if type(each) is keras.layers.Embedding and each.built:
            keep_table_dtype(each)


def in_float32(value: Any) -> Any:
    """Return a tensor of a type of 16 bits as float32, with its mask, and any other as it is."""
    if not isinstance(value, tf.Tensor) or value.dtype not in (tf.float16, tf.bfloat16):
        return value
    wide, mask = tf.cast(value, tf.float32), get_keras_mask(value)
    if mask is not None:
        set_keras_mask(wide, mask)
    return wide


@frozen
class _WidePenalty:
    """A regularizer of what a layer gives, computed in float32: a sum over a batch soon leaves float16."""

    regularizer: Any

    def __call__(self, value: Any) -> Any:
        return self.regularizer(in_float32(value))


def widen_penalties(layer: keras.Layer) -> None:
    """Let a layer, and the layers inside it, compute the penalty of what they give in float32."""
    for each in flattened_layers(layer):
        own = getattr(each, "activity_regularizer", None)
        if own is not None and not isinstance(own, _WidePenalty):
            each.activity_regularizer = _WidePenalty(own)
