"""The gradients of regularizers, traced once for weights of a shape and written for each of their copies."""

from __future__ import annotations

from collections.abc import Callable
from inspect import unwrap
from typing import Any
from weakref import WeakKeyDictionary

import keras
import tensorflow as tf

from compiler.graph.fragments import fragment_of
from compiler.graph.tower.template import WeightInfo
from compiler.reasons import Placed
from compiler.step.record import Fragment, Tensor
from compiler.step.writer import StepWriter

_WEIGHT = "weight"


_known: WeakKeyDictionary[Any, dict[tuple[tuple[int, ...], str], Fragment]] = WeakKeyDictionary()
"""Gradients by their regularizers."""


def write_slope(
    writer: StepWriter, scope: str, info: WeightInfo, weight: Tensor, placed: Placed
) -> Tensor | None:
    """Write the gradient of the regularizer of a weight.

    Returns:
        The gradient, of the shape of the weight; None if there is none.
    """
    slopes, key = _known.setdefault(info.regularizer, {}), (tuple(info.shape), info.dtype)
    if key not in slopes:
        slopes[key] = _traced(info)
    slope = slopes[key]
    use = writer.use(slope, scope, {_WEIGHT: weight}, placed)
    return None if slope.result is None else use.result


def _traced(info: WeightInfo) -> Fragment:
    """Return the gradient of the regularizer of a weight."""
    with tf.Graph().as_default() as graph:
        weight = tf.compat.v1.placeholder(info.dtype, info.shape, name=_WEIGHT)
        found = _slope_of(info.regularizer, weight)
        if found is None:
            return Fragment(tf.compat.v1.GraphDef())
        return fragment_of(graph, found)


def _slope_of(regularizer: Callable[[tf.Tensor], tf.Tensor], weight: tf.Tensor) -> tf.Tensor | None:
    """Return the gradient of a regularizer.

    Those of sums of absolute values and of squares are written out, because TensorFlow's gradient of a sum
    first makes a tensor of equal numbers, as large as the weight. They are the same bit for bit.
    """
    own = unwrap(regularizer)
    terms = _TERMS.get(type(own), ())
    factors = [(tf.get_static_value(getattr(own, name)), slope) for name, slope in terms]
    if not terms or any(factor is None for factor, _ in factors):
        return tf.gradients(regularizer(weight), weight)[0]
    found = [slope(weight, float(factor)) for factor, slope in factors]
    return found[0] if len(found) == 1 else tf.add(*found, name="slope")


def _of_absolute_values(weight: tf.Tensor, factor: float) -> tf.Tensor:
    return tf.multiply(tf.sign(weight), tf.constant(factor, weight.dtype, name="l1"), name="slope")


def _of_squares(weight: tf.Tensor, factor: float) -> tf.Tensor:
    return tf.multiply(weight, tf.constant(2 * factor, weight.dtype, name="twice_l2"), name="slope")


_Terms = tuple[tuple[str, Callable[[tf.Tensor, float], tf.Tensor]], ...]
_L1, _L2 = ("l1", _of_absolute_values), ("l2", _of_squares)
_TERMS: dict[type, _Terms] = {
    keras.regularizers.L1: (_L1,),
    keras.regularizers.L2: (_L2,),
    keras.regularizers.L1L2: (_L1, _L2),
}
"""Regularizers of Keras that are sums, with the attributes that are the factors of these sums."""
