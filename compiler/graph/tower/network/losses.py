"""The value of a Keras loss, and the weight by which it is divided if there is a mask.

Keras divides a masked loss by the number of positions that are left. This number is different for each clone,
so the mean over all clones is not the mean of their losses. Values and weights are therefore summed
separately and divided afterwards.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.keras_private import get_keras_mask, reduce_weighted_values

_PLAIN_REDUCTIONS = ("sum", "none", None)  # reductions that do not divide


@frozen
class MeasuredLoss:
    """A loss over a batch, as scalars of float32.

    Attributes:
        value: What Keras returns if there is no weight. Else Keras would return `value / weight`, and zero if
            the weight is zero. Both are means over the batch.
        weight: The weight, or None.
        joins_examples: Whether the loss depends on the batch as a whole, so that it is not a mean over
            examples.
    """

    value: tf.Tensor
    weight: tf.Tensor | None = None
    joins_examples: bool = False


def measure(loss: keras.Loss, target: Any, prediction: Any, examples: int | tf.Tensor) -> MeasuredLoss:
    """Return the value of a loss over a batch, with masks applied.

    Args:
        loss: The loss.
        target: What is to be predicted, with the batch axis first.
        prediction: What is compared with it.
        examples: The number of examples in the batch.
    """
    recording = _RecordingLoss(loss)
    plain = recording(target, prediction)
    values = recording.values
    joined = values.shape.rank == 0 or isinstance(loss, keras.losses.Circle)
    masks = [each for each in (get_keras_mask(prediction), get_keras_mask(values)) if each is not None]
    if not masks or values.shape.rank == 0 or loss.reduction in _PLAIN_REDUCTIONS:
        return MeasuredLoss(tf.cast(plain, tf.float32), None, joined)
    with tf.name_scope(loss.name):
        mask = masks[0] if len(masks) == 1 else tf.logical_and(*masks)
        masked = tf.cast(
            reduce_weighted_values(values, mask=mask, reduction=None, dtype=loss.dtype), tf.float32
        )
        return MeasuredLoss(*_means(masked, mask, loss.reduction, examples), joined)


class _RecordingLoss(keras.Loss):  # type: ignore[misc]  # Keras has no types
    """A loss that keeps the values of another loss as they are before masks and the reduction."""

    values: tf.Tensor

    def __init__(self, loss: keras.Loss) -> None:
        super().__init__(loss.name, loss.reduction, loss.dtype)
        self.loss = loss

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Return the values of the other loss."""
        self.values = self.loss.call(y_true, y_pred)
        return self.values


def _means(
    masked: tf.Tensor, mask: tf.Tensor, reduction: str, examples: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the means of the masked values and of the mask, over positions if their number is known.

    Otherwise the means are over examples. All clones have equally many positions for an example, so both
    kinds may be averaged over clones by their examples. The quotient is the same, but means over positions
    stay small in 16 bits.
    """
    counted, known = tf.cast(mask, tf.float32), masked.shape.num_elements()
    if known is not None and known == counted.shape.num_elements():
        return tf.reduce_mean(masked, name="masked"), tf.reduce_mean(counted, name="weight")
    count = tf.cast(examples, tf.float32)
    left = tf.reduce_sum(counted)
    if (
        reduction != "mean_with_sample_weight"
    ):  # the other means let the mask count for what it is spread over
        left *= tf.cast(tf.size(masked), tf.float32) / tf.cast(tf.size(counted), tf.float32)
    return tf.divide(tf.reduce_sum(masked), count, name="masked"), tf.divide(left, count, name="weight")
