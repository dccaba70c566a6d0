"""Arguments of a layer's own call: states of wrapped layers, masks, and a table used in reverse."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tests.support import Training, spec_of

MODEL = """
tfdeploy = 1
model "m" {
  words = input(int32, [4])
  label = input(int32, [4])
  table = layer(ReversibleEmbedding(9, 6, name = "table"))
  keep = ops.not_equal(words, 0)
  sequence, forward, backward = words -> table
    -> Bidirectional(GRU(3, return_sequences = true, return_state = true), name = "first")(mask = keep)
  second = sequence
    -> Bidirectional(GRU(3, return_sequences = true), name = "second")(initial_state = [backward, forward])
  logits = second -> table(reverse = true)
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}
devices { cpu = 2 }
clones { count = 2, batch = 4 }
update { optimizer = SGD(0.5) }
train { seed = 3 }
"""


def _keras_twin() -> keras.Model:
    layers = keras.layers
    words = keras.Input((4,), dtype="int32")
    table = layers.ReversibleEmbedding(9, 6, name="table")
    keep = keras.ops.not_equal(words, 0)
    first = layers.Bidirectional(layers.GRU(3, return_sequences=True, return_state=True), name="first")
    second = layers.Bidirectional(layers.GRU(3, return_sequences=True), name="second")
    sequence, forward, backward = first(table(words), mask=keep)
    return keras.Model(words, table(second(sequence, initial_state=[backward, forward]), reverse=True))


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:Layer 'table'")  # which passes no mask on
def test_a_step_is_that_of_keras() -> None:
    """Each argument matters to the numbers, and after a step on two clones the weights are Keras's."""
    generator = np.random.default_rng(1)
    words = generator.integers(1, 9, (8, 4)).astype(np.int32)
    words[:, 2:] *= generator.integers(0, 2, (8, 1), np.int32)  # some end with what the mask leaves out
    arrays = {"words": words, "label": generator.integers(0, 9, (8, 4)).astype(np.int32)}
    with Training(spec_of(MODEL), arrays) as training:
        before = training.values()
        (loss,) = training.steps(1)
        after = training.values()
    twin = _keras_twin()
    names = [name for name in before if name != "global_step"]
    assert [before[name].shape for name in names] == [tuple(each.shape) for each in twin.weights]
    for name, variable in zip(names, twin.weights, strict=True):
        variable.assign(before[name])
    twin.compile(
        keras.optimizers.SGD(0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=True,
    )
    np.testing.assert_allclose(loss, twin.train_on_batch(arrays["words"], arrays["label"]), rtol=1e-5)
    for name, variable in zip(names, twin.weights, strict=True):
        np.testing.assert_allclose(after[name], variable.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
        assert not np.array_equal(after[name], before[name]), name
