"""Tensors as values and arguments of calls: a step on two clones is that of the same model in plain Keras."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.storage.export import keras_model
from tests.compiler.graph.twins import follow, step_of
from tests.support import Training, cloned, spec_of
from tests.zoo.keras_layers import Same

MODEL = """
tfdeploy = 1

layer "pair" {
  width = parameter(int)
  x = input()
  y = x -> Dense(width, activation = tanh, name = "inner")
  output = [y, y + x[:, :1]]
}

model "m" {
  words = input(int32, [4])
  label = input(float32, [2])

  twice = layer(pair(3))
  places = weight([4, 6], initializer = uniform)
  rate = weight([], initializer = ones)
  x = (words -> Embedding(9, 6, name = "table")) + places
  sequence, state, _ = x -> LSTM(5, return_sequences = true, return_state = true, name = "lstm")
  seen = [sequence, sequence] -> MultiHeadAttention(1, 2, name = "attention")(use_causal_mask = true)
  again = seen -> GRU(5, name = "gru")(initial_state = state)
  p, _ = again -> twice
  _, q = -seen[..., -1, ::2] -> Dense(5, name = "middle") -> twice
  scaled = (2 * p - q / 3) * ops.expand_dims(rate, -1)
  joined = ops.concatenate([scaled, ops.softmax(p, axis = -1)], axis = -1)
  out = joined + ops.cast(ops.arange(6), float32) -> Dense(2, name = "out")

  loss = [label, out] -> MeanSquaredError()
}

devices { cpu = 2 }
clones { count = 2, batch = 4 }
update { optimizer = SGD(0.1) }
train { seed = 3 }
"""


def _keras_twin() -> keras.Model:
    """Return the model above as one writes it in Keras."""
    layers, ops = keras.layers, keras.ops
    words = keras.Input((4,), dtype="int32")
    inner = layers.Dense(3, activation="tanh", name="twice_inner")
    x = layers.Embedding(9, 6, name="table")(words) + Same((4, 6), "places")(words)
    sequence, state, _ = layers.LSTM(5, return_sequences=True, return_state=True, name="lstm")(x)
    seen = layers.MultiHeadAttention(1, 2, name="attention")(sequence, sequence, use_causal_mask=True)
    again = layers.GRU(5, name="gru")(seen, initial_state=state)
    p = inner(again)
    middle = layers.Dense(5, name="middle")(-seen[..., -1, ::2])
    q = inner(middle) + middle[:, :1]
    scaled = (2 * p - q / 3) * ops.expand_dims(Same((), "rate")(words), -1)
    joined = ops.concatenate([scaled, ops.softmax(p, axis=-1)], axis=-1)
    return keras.Model(words, layers.Dense(2, name="out")(joined + ops.cast(ops.arange(6), "float32")))


@pytest.mark.full
@pytest.mark.slow
def test_numbers_are_those_of_keras(tmp_path: Path) -> None:
    """Weights after a step, and predictions by the exported file in plain Keras, are the same."""
    generator = np.random.default_rng(1)
    arrays = {
        "words": generator.integers(0, 9, (8, 4)).astype(np.int32),
        "label": generator.standard_normal((8, 2)).astype(np.float32),
    }
    step, twin = step_of(spec_of(MODEL), arrays), _keras_twin()
    exported = keras_model(step.compiled, step.weights)
    variables = {each.path.replace("twice_inner", "twice/inner"): each for each in twin.weights}
    optimizer, loss = keras.optimizers.SGD(0.1), keras.losses.MeanSquaredError()
    follow(step, twin, optimizer, loss, *arrays.values(), variables=variables)

    exported.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    expected = twin.predict(arrays["words"], verbose=0)
    np.testing.assert_allclose(loaded.predict(arrays["words"], verbose=0), expected, rtol=1e-5, atol=1e-6)


FREE = """
  word = input(string, [2])
  label = input(float32, [2])
  free = weight([1, 2, 1, 1, 1, 1, 2], initializer = uniform)
  flat = ops.reshape(free, [-1, 4])
  found = word -> StringLookup(vocabulary = ["a", "b"]) -> Embedding(3, 1) -> Reshape([2], name = "reshape_1")
  out = (found -> Reshape([2]) -> Activation(linear, name = "add")) + flat[:, 1:3]
  loss = [label, out] -> MeanSquaredError()
"""


def test_a_free_weight_of_many_axes_in_a_model_of_texts_is_exported(tmp_path: Path) -> None:
    """Keras alone loads the file, whose predictions are those of the towers with the same weights.

    Its layers have names that Keras would choose for the operations.
    """
    arrays = {
        "word": np.array([["a", "c"], ["b", "b"], ["a", "b"], ["c", "a"]], object),
        "label": np.ones((4, 2), np.float32),
    }
    with Training(spec_of(cloned(FREE, batch=2)), arrays) as training:
        training.steps(2)
        values = training.values()
        exported = keras_model(training.compiled, {name: values[name] for name in training.compiled.weights})
        towers = training.session.run([clone.outputs for clone in training.compiled.clones])
    exported.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    np.testing.assert_allclose(
        loaded.predict(tf.constant(arrays["word"]), verbose=0), np.concatenate(towers), rtol=1e-5, atol=1e-6
    )


CALLS = """
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
"""


def _twin_of_calls() -> keras.Model:
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
def test_arguments_of_calls_are_those_of_keras() -> None:
    """Each argument matters to the numbers, and after a step on two clones the weights are Keras's."""
    generator = np.random.default_rng(1)
    words = generator.integers(1, 9, (8, 4)).astype(np.int32)
    words[:, 2:] *= generator.integers(0, 2, (8, 1), np.int32)  # some end with what the mask leaves out
    arrays = {"words": words, "label": generator.integers(0, 9, (8, 4)).astype(np.int32)}
    step, twin = step_of(spec_of(cloned(CALLS)), arrays), _twin_of_calls()
    variables = dict(zip(step.compiled.weights, twin.weights, strict=True))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    follow(step, twin, keras.optimizers.SGD(0.1), loss, *arrays.values(), variables=variables)
    assert not any(np.array_equal(value, step.before[name]) for name, value in step.weights.items())
