"""Look-ups in vocabularies: a step on two clones, and a prediction, are those of plain Keras."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfdeploy
from compiler.graph.inspect.placement_map import map_placement
from compiler.graph.storage.export import keras_model
from compiler.graph.tower.network import lookups
from compiler.graph.tower.network.keras_scope import own_names
from tests.compiler.graph.twins import follow, step_of
from tests.graphs import graph_of
from tests.support import cloned, spec_of

MODEL = """
  word = input(string, [2])
  text = input(string, [])
  number = input(int32, [2])
  size = input(float32, [3])
  label = input(float32, [2])

  a = word -> StringLookup(vocabulary = ["b", "a", "ü"], num_oov_indices = 3, mask_token = "")
    -> Embedding(7, 2)
  b = word -> StringLookup(vocabulary = ["b", "a"], output_mode = multi_hot)
  c = number -> IntegerLookup(vocabulary = [5, -3, 40000000000], mask_token = 0) -> Embedding(5, 2)
  d = number -> IntegerLookup(
    vocabulary = [5, 7], output_mode = count, max_tokens = 9, pad_to_max_tokens = true,
  )
  e = text -> TextVectorization(vocabulary = ["the", "cat"], output_sequence_length = 3) -> Embedding(4, 2)
  f = text -> TextVectorization(vocabulary = ["the", "cat"], idf_weights = [0.25, 2.0], output_mode = tf_idf)
  g = size -> Discretization(bin_boundaries = [-1.0, 0.5]) -> Embedding(3, 2)
  h = size -> Normalization(mean = [1.0, 2.0, 3.0], variance = [4.0, 1.0, 0.25])
  i = word -> Hashing(5, salt = 7) -> Embedding(5, 2)
  j = number -> Hashing(6) -> Embedding(6, 2)
  flat = layer(Flatten())
  all = ops.concatenate([
    a -> flat, ops.cast(b, float32), c -> flat, ops.cast(d, float32), e -> flat, f, g -> flat, h, i -> flat,
    j -> flat,
  ], axis = -1)
  out = all -> Dense(2, name = "out")

  loss = [label, out] -> MeanSquaredError()
"""


def _twin() -> keras.Model:
    """Return the model above as one writes it in Keras."""
    layers, ops = keras.layers, keras.ops
    word, text = keras.Input((2,), dtype="string"), keras.Input((), dtype="string")
    number, size = keras.Input((2,), dtype="int32"), keras.Input((3,))
    words = ["b", "a", "ü"]
    looked_up = [
        layers.StringLookup(vocabulary=words, num_oov_indices=3, mask_token="")(word),
        layers.StringLookup(vocabulary=words[:2], output_mode="multi_hot")(word),
        layers.IntegerLookup(vocabulary=[5, -3, 40000000000], mask_token=0)(number),
        layers.IntegerLookup(vocabulary=[5, 7], output_mode="count", max_tokens=9, pad_to_max_tokens=True)(
            number
        ),
        layers.TextVectorization(vocabulary=["the", "cat"], output_sequence_length=3)(text),
        layers.TextVectorization(vocabulary=["the", "cat"], idf_weights=[0.25, 2.0], output_mode="tf_idf")(
            text
        ),
        layers.Discretization(bin_boundaries=[-1.0, 0.5])(size),
        layers.Normalization(mean=[1.0, 2.0, 3.0], variance=[4.0, 1.0, 0.25])(size),
        layers.Hashing(5, salt=7)(word),
        layers.Hashing(6)(number),
    ]
    lengths = {0: 7, 2: 5, 4: 4, 6: 3, 8: 5, 9: 6}
    parts = [
        layers.Flatten()(layers.Embedding(lengths[at], 2)(each))
        if at in lengths
        else ops.cast(each, "float32")
        for at, each in enumerate(looked_up)
    ]
    out = layers.Dense(2, name="out")(ops.concatenate(parts, axis=-1))
    return keras.Model([word, text, number, size], out)


def _examples() -> dict[str, Any]:
    generator = np.random.default_rng(1)
    texts = ["The cat!", "", "cat the cat cat", "a dog", "the  THE", "[UNK]", "cat", "the dog"]
    return {
        "word": generator.choice(np.array(["a", "b", "ü", "", "zebra", "ö", "[UNK]"], object), (8, 2)),
        "text": np.array(texts, object),
        "number": generator.choice([5, -3, 0, 7, 2_000_000_000, -8], (8, 2)).astype(np.int32),
        "size": generator.standard_normal((8, 3)).astype(np.float32),
        "label": generator.standard_normal((8, 2)).astype(np.float32),
    }


@pytest.mark.full
@pytest.mark.slow
def test_numbers_are_those_of_keras(tmp_path: Path) -> None:
    """Weights after a step, and predictions of the exported files in plain Keras, are the same."""
    arrays = _examples()
    step = step_of(spec_of(cloned(MODEL)), arrays, emulate=True)
    exported = keras_model(step.compiled, step.weights)
    with own_names():
        twin = _twin()
    inputs = [tf.constant(arrays[each]) for each in ("word", "text", "number", "size")]
    follow(step, twin, keras.optimizers.SGD(0.1), keras.losses.MeanSquaredError(), inputs, arrays["label"])

    expected = twin(inputs).numpy()
    exported.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras", safe_mode=True)
    np.testing.assert_allclose(loaded(inputs), expected, rtol=1e-5, atol=1e-6)
    exported.export(str(tmp_path / "saved"), verbose=False)
    served = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_allclose(served.serve(inputs), expected, rtol=1e-5, atol=1e-6)


def test_look_ups_stay_off_gpus() -> None:
    """Only numbers are sent to the tower's GPU, and the map gives the reason."""
    compiled = graph_of(spec_of(cloned(MODEL), devices__cpu="1", devices__gpu="2"), emulate=True)
    ops = {each.name: each for each in map_placement(compiled).ops}
    for name in ("string_lookup/LowerBound", "string_lookup/SelectV2", "text_vectorization/Identity"):
        found = ops[f"clone_1/{name}"]
        assert (found.requested, found.rule.text) == ("cpu[0]", "strings -> cpu[0]")
    assert ops["clone_1/integer_lookup/LowerBound"].requested == "gpu[1]"
    assert ops["clone_1/out/MatMul"].requested == "gpu[1]"


IN_PYTHON = """
import keras, numpy as np, tensorflow as tf

class InPython(keras.layers.Layer):
    def call(self, x):
        halved = tf.numpy_function(lambda values: np.float32(values / 2), [x], tf.float32)
        halved.set_shape(x.shape)
        return halved + x
"""


def test_functions_of_python_stay_off_gpus(tmp_path: Path) -> None:
    """GPUs cannot call Python, so the call alone runs on the tower's CPU, and the map gives the reason."""
    (tmp_path / "mine.py").write_text(IN_PYTHON)
    path = tmp_path / "spec.tfdeploy"
    path.write_text(
        'tfdeploy = 1\nmodel "m" {\n  x = input(float32, [3])\n  y = input(float32, [2])\n'
        '  out = x -> python("mine:InPython", name = "halved") -> Dense(2)\n'
        "  loss = [y, out] -> MeanSquaredError()\n}\n"
        "devices { cpu = 1, gpu = 2 }\nclones { batch = 4 }\nplace { clones -> gpu[*] }\n"
    )
    found = map_placement(tfdeploy.compile(tfdeploy.load(path, allow_python=True), emulate=True))
    ops = {each.name: each for each in found.ops}
    called = ops["clone_1/halved/PyFunc"]
    assert (called.requested, called.rule.text) == ("cpu[0]", "python -> cpu[0]")
    assert ops["clone_1/halved/add"].requested == "gpu[1]"


def test_words_with_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """If two words have the same hash, another is taken; an unknown word is compared with the one found."""
    hashed = lookups._hashed
    monkeypatch.setattr(
        lookups, "_hashed", lambda words, salt: hashed(words, salt) // (1 if salt > 1 else 2**62)
    )
    words = np.array([b"w%d" % at for at in range(50)], object)
    table = lookups.SortedTable.of(words, np.arange(50), np.int64(-1))
    assert table.salt == 2
    monkeypatch.setattr(lookups, "_hashed", lambda words, _: tf.zeros(tf.shape(words), tf.int64))
    assert table.lookup(tf.constant(["nothing"])).numpy().tolist() == [-1]
