"""The value of a loss over a batch, what it is divided by, how much examples count, and tensors as terms."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.common.masking import set_keras_mask

from compiler.graph.tower.network.losses import measure, weights_of_examples
from tests.support import Training, spec_of


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


def test_losses_that_look_at_the_whole_batch_are_known() -> None:
    """Dice and Tversky over everything, and pairs of examples; not what is a mean over examples."""
    with tf.Graph().as_default():
        images = tf.compat.v1.placeholder(tf.float32, (4, 3, 3, 1))
        ranks, rows = tf.compat.v1.placeholder(tf.int32, (4,)), tf.compat.v1.placeholder(tf.float32, (4, 3))
        whole = [keras.losses.Dice(), keras.losses.Tversky()]
        assert all(measure(each, images, images, 4).joins_examples for each in whole)
        assert measure(keras.losses.Circle(), ranks, rows, 4).joins_examples
        assert not measure(keras.losses.Dice(axis=(1, 2, 3)), images, images, 4).joins_examples
        assert not measure(keras.losses.MeanSquaredError(), images, images, 4).joins_examples


SPARSE, DENSE = "SparseCategoricalCrossentropy", "CategoricalCrossentropy"
BY_CLASS = (0.5, 3.0)


@pytest.mark.parametrize(
    ("name", "target", "given", "by_class", "expected"),
    [
        (DENSE, [[1.0, 0.0]], None, (), None),
        (DENSE, [[1.0, 0.0], [0.0, 1.0]], [2.0, 3.0], (), [2.0, 3.0]),
        (DENSE, [[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.2, 0.2, 0.6]], None, BY_CLASS, [0.5, 3.0, 1.0]),
        (DENSE, [[0.9, 0.1], [0.1, 0.9]], [2.0, 4.0], BY_CLASS, [1.0, 12.0]),
        (SPARSE, [0, 1, 2, -1, 9], None, BY_CLASS, [0.5, 3.0, 1.0, 1.0, 1.0]),
        (SPARSE, [[0], [1], [2]], [1.0, 2.0, 3.0], BY_CLASS, [0.5, 6.0, 3.0]),
        (SPARSE, [[0, 1], [2, 0]], None, BY_CLASS, [[0.5, 3.0], [1.0, 0.5]]),
        (SPARSE, [0.4, 0.6], None, BY_CLASS, [0.5, 3.0]),
        ("BinaryCrossentropy", [[0.0], [1.0]], None, BY_CLASS, [0.5, 3.0]),
    ],
)
def test_examples_count_by_their_weights_and_classes(
    name: str, target: Any, given: Any, by_class: tuple[float, ...], expected: Any
) -> None:
    """A class is a number or the place of the largest number; one beyond the list counts 1."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weights = None if given is None else tf.constant(given, tf.float64)
        found = weights_of_examples(name, tf.constant(target), weights, by_class)
        if expected is None:
            assert found is None
        else:
            assert found.dtype == tf.float32
            np.testing.assert_allclose(session.run(found), np.array(expected, np.float32))


@pytest.mark.parametrize(("shape", "wrong"), [((4,), [(), (4, 2)]), ((4, 3), [(), (4,), (4, 2), (4, 3, 2)])])
def test_weights_that_fit_the_values_are_taken(shape: tuple[int, ...], wrong: list[tuple[int, ...]]) -> None:
    """One for each value of the loss; others would be spread along a wrong axis."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with tf.Graph().as_default():
        tags, logits = tf.zeros(shape, tf.int32), tf.zeros((*shape, 2))
        assert measure(loss, tags, logits, 4, tf.ones(shape)).weight is None
        for each in wrong:
            with pytest.raises(ValueError, match="weights of the shape"):
                measure(loss, tags, logits, 4, tf.ones(each))
        with pytest.raises(ValueError, match="one number for the whole batch"):
            measure(keras.losses.Dice(), logits, logits, 4, tf.ones((4,)))


TEXT = """
tfdeploy = 1
model "m" {{
  x = input(float32, [4])
  y = x -> Dense(1, use_bias = false, kernel_initializer = ones)
  square = ops.sum(ops.square(x), axis = -1)
  {lines}
}}
devices {{ cpu = 2 }}
clones {{ count = 2, batch = [3, 5] }}
update {{ optimizer = SGD(0.5) }}
"""


@pytest.mark.slow
def test_means_are_over_the_whole_batch() -> None:
    """Signs, factors and clones with other batches; the gradient is that of the mean."""
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    lines = (
        "loss = -(3 * y)[:, 0] - square / 4 + 2 * ops.square(y)[:, 0] + 0.5 * ([x, x] -> MeanSquaredError())"
    )
    with Training(spec_of(TEXT.format(lines=f"{lines}, output = y")), {"x": x}) as training:
        before = training.values()["dense/kernel"]
        (loss,) = training.steps(1)
        after = training.values()["dense/kernel"]
    y, square = (x @ before)[:, 0], np.sum(x**2, axis=-1)
    assert loss == pytest.approx(np.mean(-3 * y - square / 4 + 2 * y**2), rel=1e-5)
    gradient = np.mean((-3 + 4 * y)[:, None] * x, axis=0)
    np.testing.assert_allclose(after[:, 0], before[:, 0] - 0.5 * gradient, rtol=1e-5, atol=1e-6)
