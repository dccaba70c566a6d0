"""The batch normalizations of which towers are made, in the stead of those of Keras.

They compute the same as Keras's own, apart from rounding, and differ in two ways:

- Images are normalized by one fused op. Keras composes the normalization of some twenty small ops, and its
  gradient of twice as many. Each op goes through all activations, and is made and scheduled for every clone.
- If clones normalize by the whole batch, mean and variance of a tower are exchanged with the other towers.

A model that is exported is made of Keras's own layers, so that it loads without this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from compiler.graph.adapters.keras_private import Functional, OwnMoments, flattened_layers
from compiler.graph.tower.network.batch_norm import exchanges_for

SMALLEST_EPSILON = 1.001e-5  # cuDNN's kernel uses a larger epsilon instead of a smaller one than this
IMAGE_RANK = 4  # the axes of a batch of images: examples, height, width, channels


class SynchronizedMoments(OwnMoments):
    """A batch normalization that uses mean and variance of the whole batch if the tower exchanges them."""

    def moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        """Return the mean and variance by which inputs are normalized during training.

        Args:
            inputs: The batch of the tower.
            mask: Which positions of the batch count, or None if all do. It has one axis less than the batch.

        Returns:
            Two tensors with one number for each channel.
        """
        current = exchanges_for(self)
        if current is None:
            return super().moments(inputs, mask)
        exchanges, path = current
        return exchanges.whole_batch(
            path, self, inputs, mask, lambda: super(SynchronizedMoments, self).moments(inputs, mask)
        )


class BatchNormalization(SynchronizedMoments):
    """A batch normalization that is one op if its inputs are images.

    It has the name of Keras's class because Keras names layers, and so their weights, after their class.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = None, mask: Any = None) -> tf.Tensor:
        """Normalize a batch, and move the moving statistics towards those of the batch during training.

        The fused op gives the unbiased variance of the batch. Keras moves towards the biased one, so the
        correction is undone.

        Args:
            inputs: The batch.
            training: Whether the statistics are those of the batch, and not the moving ones.
            mask: Which positions of the batch count, or None if all do.

        Returns:
            The normalized batch, in the compute dtype of the layer.
        """
        batch = bool(training) and self.trainable
        count: Any = inputs.shape[:-1].num_elements() if inputs.shape.rank else None  # numbers in one channel
        if not self._is_image(inputs) or (batch and (mask is not None or not count)):
            return super().call(inputs, training=training, mask=mask)
        mean, variance = self.moving_mean.value, self.moving_variance.value
        nothing = tf.constant([], tf.float32)
        result = tf.raw_ops.FusedBatchNormV3(
            x=tf.cast(inputs, tf.float32),
            scale=self.gamma.value if self.scale else tf.ones(mean.shape),
            offset=self.beta.value if self.center else tf.zeros(mean.shape),
            mean=nothing if batch else mean,
            variance=nothing if batch else variance,
            epsilon=self.epsilon,
            is_training=batch,
        )
        if batch:
            new, bias = 1 - self.momentum, max(count - 1, 1) / count
            self.moving_mean.assign(mean * self.momentum + result.batch_mean * new)
            self.moving_variance.assign(variance * self.momentum + result.batch_variance * (bias * new))
        return tf.cast(result.y, self.compute_dtype)

    def _is_image(self, inputs: tf.Tensor) -> bool:
        """Whether the fused op can compute what the layer does with these inputs."""
        return (
            not self.renorm
            and exchanges_for(self) is None
            and inputs.shape.rank == IMAGE_RANK
            and self.axis in (-1, IMAGE_RANK - 1)
            and self.epsilon >= SMALLEST_EPSILON
            and inputs.dtype != tf.float64
        )


TOWER_CLASSES: Mapping[Any, type[keras.Layer]] = {keras.layers.BatchNormalization: BatchNormalization}
"""The classes of Keras in whose stead a tower has layers of this module."""


def with_tower_layers(layer: keras.Layer) -> keras.Layer:
    """Return a layer or model that Keras or a user has made, with the layers of this module in it.

    A functional or sequential model is cloned. Its other layers are shared with the clone. If a class of the
    user's holds a batch normalization, only that class knows in which attributes, so that the layer cannot be
    exchanged for another one; it becomes an instance of our subclass.

    Args:
        layer: A layer or model whose variables have not been created.

    Returns:
        The layer itself if there is no batch normalization in it.
    """
    known = type(layer)
    if not any(isinstance(each, keras.layers.BatchNormalization) for each in flattened_layers(layer)):
        return layer
    if known in TOWER_CLASSES:
        return TOWER_CLASSES[known].from_config(layer.get_config())
    if known in (keras.Sequential, Functional):
        return keras.models.clone_model(layer, clone_function=_with_tower_layers)
    for each in flattened_layers(layer):
        if isinstance(each, keras.layers.BatchNormalization) and not isinstance(each, SynchronizedMoments):
            own = type(each)
            each.__class__ = TOWER_CLASSES.get(own) or type(own.__name__, (SynchronizedMoments, own), {})
    return layer


def _with_tower_layers(part: Any) -> Any:
    """Return a layer of a model for its clone; operations that are no layers stay."""
    return with_tower_layers(part) if isinstance(part, keras.Layer) else part
