"""The value of a Keras loss, and the weight by which it is divided if that depends on the data.

Keras divides a masked loss by the number of positions that are left, and a loss with the reduction
`mean_with_sample_weight` by the sum of the weights of the examples. These numbers are different for each
clone, so the mean over all clones is not the mean of their losses. Values and weights are therefore summed
separately and divided afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from attrs import frozen

from compiler.graph.adapters.keras_private import (
    get_keras_mask,
    reduce_weighted_values,
    squeeze_or_expand_to_same_rank,
)
from compiler.model.shapes import weights_fit
from dsl.schema.signatures import takes_class_numbers

_PLAIN_REDUCTIONS = ("sum", "none", None)  # reductions that do not divide
_BY_WEIGHTS = "mean_with_sample_weight"  # the reduction that divides by the sum of the weights


@frozen
class MeasuredLoss:
    """A loss over a batch, as scalars of float32."""

    # What Keras returns if there is no weight. Else Keras would return `value / weight`, and zero if the
    # weight is zero. Both are means over the batch.
    value: tf.Tensor
    weight: tf.Tensor | None = None  # the weight by which the value is divided, or None
    # Whether the loss depends on the batch as a whole, so that it is not a mean over examples.
    joins_examples: bool = False


def measure(
    loss: keras.Loss, target: Any, prediction: Any, examples: int | tf.Tensor, weights: Any = None
) -> MeasuredLoss:
    """Return the value of a loss over a batch, with masks and weights of examples applied.

    Args:
        target: What is to be predicted, with the batch axis first.
        weights: How much each example, or each position of it, counts; None if all count the same.

    Raises:
        ValueError: The weights do not fit the values of the loss, or its reduction leaves more than one.
    """
    recording = _RecordingLoss(loss, weights)
    plain = recording(target, prediction, weights)
    values = recording.values
    joined = values.shape.rank == 0 or isinstance(loss, keras.losses.Circle)
    masks = [each for each in (get_keras_mask(prediction), get_keras_mask(values)) if each is not None]
    divides = bool(masks) or (weights is not None and loss.reduction == _BY_WEIGHTS)
    if plain.shape.rank:
        raise ValueError("it is not one number: leave `reduction` out, or write another")
    if not divides or values.shape.rank == 0 or loss.reduction in _PLAIN_REDUCTIONS:
        return MeasuredLoss(tf.cast(plain, tf.float32), None, joined)
    with tf.name_scope(loss.name):
        mask = tf.logical_and(*masks) if len(masks) > 1 else masks[0] if masks else None
        weighted = reduce_weighted_values(
            values, sample_weight=weights, mask=mask, reduction=None, dtype=loss.dtype
        )
        counted = mask if loss.reduction != _BY_WEIGHTS else _product(mask, weights)
        means = _means(tf.cast(weighted, tf.float32), counted, loss.reduction, examples)
        return MeasuredLoss(*means, joined)


def weights_of_examples(name: str, target: Any, given: Any, by_class: Sequence[float]) -> Any:
    """Return how much each example counts in a loss or metric, or None if all count the same.

    No gradient flows into the weights. The class of an example is found as `fit(class_weight=...)` of Keras
    finds it: the target is its number, or else the place of the largest number along the last axis of the
    target. A class beyond the list counts 1. The target of a loss or metric for sparse labels may have a
    class for each position.

    Args:
        by_class: The weights of the classes, by their numbers; or empty.
    """
    weights = None if given is None else tf.stop_gradient(tf.cast(given, tf.float32))
    if not by_class:
        return weights
    numbers = tf.convert_to_tensor(target)
    if numbers.shape.rank > 1 and numbers.shape[-1] == 1:
        numbers = tf.squeeze(numbers, -1)
    elif numbers.shape.rank > 1 and not takes_class_numbers(name):
        numbers = tf.argmax(numbers, -1)
    if not numbers.dtype.is_integer:
        numbers = tf.round(tf.cast(numbers, tf.float32))
    numbers = tf.cast(numbers, tf.int32)
    known = tf.logical_and(numbers >= 0, numbers < len(by_class))
    table = tf.constant([*by_class, 1.0], tf.float32)
    return _product(tf.stop_gradient(tf.gather(table, tf.where(known, numbers, len(by_class)))), weights)


def _product(first: Any, second: Any) -> Any:
    """Return the product of two masks or weights, of which one may be None."""
    if first is None or second is None:
        return first if second is None else second
    first, second = squeeze_or_expand_to_same_rank(tf.cast(first, tf.float32), tf.cast(second, tf.float32))
    return first * second


class _RecordingLoss(keras.Loss):  # type: ignore[misc]  # Keras has no types
    """A loss that keeps the values of another loss as they are before masks and the reduction."""

    values: tf.Tensor

    def __init__(self, loss: keras.Loss, weights: Any) -> None:
        super().__init__(loss.name, loss.reduction, loss.dtype)
        self.loss = loss
        self.weights = weights

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        """Return the values of the other loss. Raises ValueError if the weights do not fit them."""
        self.values = self.loss.call(y_true, y_pred)
        if self.weights is not None:
            _require_fit(self.values.shape, self.weights.shape)
        return self.values


def _require_fit(values: tf.TensorShape, weights: tf.TensorShape) -> None:
    if values.rank == 0:
        raise ValueError("this loss is one number for the whole batch, so its examples can have no weights")
    if weights.rank == 0 or not weights_fit(values.as_list()[1:], weights.as_list()[1:]):
        shapes = [[*each.as_list()[1:]] for each in (weights, values)]
        raise ValueError(f"weights of the shape {shapes[0]} cannot weigh values of the shape {shapes[1]}")


def _means(
    masked: tf.Tensor, mask: tf.Tensor, reduction: str, examples: int | tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the means of the weighted values and of what divides them.

    They are means over positions if the number of these is known. Otherwise the means are over examples. All
    clones have equally many positions for an example, so both kinds may be averaged over clones by their
    examples. The quotient is the same, but means over positions stay small in 16 bits.
    """
    counted, known = tf.cast(mask, tf.float32), masked.shape.num_elements()
    if known is not None and known == counted.shape.num_elements():
        return tf.reduce_mean(masked, name="masked"), tf.reduce_mean(counted, name="weight")
    count = tf.cast(examples, tf.float32)
    left = tf.reduce_sum(counted)
    if reduction != _BY_WEIGHTS:  # the other means let the mask count for what it is spread over
        left *= tf.cast(tf.size(masked), tf.float32) / tf.cast(tf.size(counted), tf.float32)
    return tf.divide(tf.reduce_sum(masked), count, name="masked"), tf.divide(left, count, name="weight")
