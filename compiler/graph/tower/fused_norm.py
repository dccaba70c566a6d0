"""Batch normalisation of images as one op, and another one for its gradient.

Keras composes it of some twenty small ops, and the gradient of twice as many, each of which goes through all
of the activations and is made, stamped and scheduled for every clone. TensorFlow's fused kernel computes the
same, but for rounding. It gives the unbiased variance of a batch, of which Keras's moving variance is made
after the correction has been undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from compiler.graph.adapters.keras_private import flattened_layers

SMALLEST_EPSILON = 1.001e-5  # below that the kernel of cuDNN takes its own
RANK = 4  # of a batch of images, channels last


@contextmanager
def fused_normalisation(layer: keras.Layer, *, excluded: Callable[[Any], bool]) -> Iterator[None]:
    """Let the batch normalisations in `layer` use the fused op where it can stand for what they do.

    Layers for which `excluded` returns true are left as they are.
    """
    hooked = [
        each
        for each in flattened_layers(layer)
        if type(each) is keras.layers.BatchNormalization and not each.renorm and not excluded(each)
    ]
    for each in hooked:
        object.__setattr__(each, "call", partial(_call, each))
    try:
        yield
    finally:
        for each in hooked:
            object.__delattr__(each, "call")


def _call(layer: Any, inputs: tf.Tensor, training: bool | None = None, mask: Any = None) -> tf.Tensor:
    """Normalise; takes the place of the layer's own method."""
    batch = bool(training) and layer.trainable
    count = _examples_of_a_channel(inputs.shape)
    fits = inputs.shape.rank == RANK and layer.axis in (-1, RANK - 1) and layer.epsilon >= SMALLEST_EPSILON
    if not fits or inputs.dtype == tf.float64 or (batch and (mask is not None or not count)):
        return type(layer).call(layer, inputs, training=training, mask=mask)
    mean, variance = layer.moving_mean.value, layer.moving_variance.value
    nothing = tf.constant([], tf.float32)
    result = tf.raw_ops.FusedBatchNormV3(
        x=tf.cast(inputs, tf.float32),
        scale=layer.gamma.value if layer.scale else tf.ones(mean.shape),
        offset=layer.beta.value if layer.center else tf.zeros(mean.shape),
        mean=nothing if batch else mean,
        variance=nothing if batch else variance,
        epsilon=layer.epsilon,
        is_training=batch,
    )
    if batch:
        assert count is not None
        new, bias = 1 - layer.momentum, max(count - 1, 1) / count
        layer.moving_mean.assign(mean * layer.momentum + result.batch_mean * new)
        layer.moving_variance.assign(variance * layer.momentum + result.batch_variance * (bias * new))
    return tf.cast(result.y, layer.compute_dtype)


def _examples_of_a_channel(shape: tf.TensorShape) -> int | None:
    """Return how many numbers of one channel there are; None where that is not known before the run."""
    found: int | None = shape[:-1].num_elements() if shape.rank else None
    return found
