"""The value of a loss over a batch, what it is divided by, how much examples count, and tensors as terms."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.common.masking import set_keras_mask

from compiler.graph.tower.network.losses import measure
from tests.support import Training, cloned, spec_of


@pytest.mark.family(every=3)
@pytest.mark.parametrize("shape", [(4, 3), (None, None)], ids=["static", "dynamic"])
@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "mean", "mean_with_sample_weight", "sum"])
@pytest.mark.parametrize("masks", ["neither", "given", "ignored", "both"])
def test_value_over_weight_is_what_keras_gives(shape: Any, reduction: str, masks: str) -> None:
    """For every reduction and mask, whether shapes are known beforehand or not."""
    generator = np.random.default_rng(1)
    targets, outputs = generator.integers(0, 3, (4, 3)), generator.normal(size=(4, 3, 3)).astype(np.float32)
    given = generator.random((4, 3)) > 0.4
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=0 if masks in {"ignored", "both"} else None, reduction=reduction
    )
    with tf.Graph().as_default():
        target = tf.compat.v1.placeholder(tf.int32, shape)
        prediction = tf.compat.v1.placeholder(tf.float32, (*shape, 3))
        mask = tf.compat.v1.placeholder(tf.bool, shape)
        if masks in {"given", "both"}:
            set_keras_mask(prediction, mask)
        found = measure(loss, target, prediction, tf.shape(target)[0])
        assert (found.weight is None) == (masks == "neither" or reduction == "sum")
        mean = found.value if found.weight is None else found.value / found.weight
        with tf.compat.v1.Session() as session:
            values = {target: targets, prediction: outputs, mask: given}
            ours, theirs = session.run([mean, loss(target, prediction)], values)
    assert ours == pytest.approx(theirs, rel=1e-5)


TEXT = """
  x = input(float32, [4])
  y = x -> Dense(1, use_bias = false, kernel_initializer = ones)
  square = ops.sum(ops.square(x), axis = -1)
  output = y
  loss = -(3 * y)[:, 0] - square / 4 + 2 * ops.square(y)[:, 0] + 0.5 * ([x, x] -> MeanSquaredError())
"""


@pytest.mark.slow
def test_means_are_over_the_whole_batch() -> None:
    """Signs, factors and clones with other batches; the gradient is that of the mean."""
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    with Training(spec_of(cloned(TEXT, batch=[3, 5])), {"x": x}) as training:
        before = training.values()["dense/kernel"]
        (loss,) = training.steps(1)
        after = training.values()["dense/kernel"]
    y, square = (x @ before)[:, 0], np.sum(x**2, axis=-1)
    assert loss == pytest.approx(np.mean(-3 * y - square / 4 + 2 * y**2), rel=1e-5)
    gradient = np.mean((-3 + 4 * y)[:, None] * x, axis=0)
    np.testing.assert_allclose(after[:, 0], before[:, 0] - 0.1 * gradient, rtol=1e-5, atol=1e-6)
