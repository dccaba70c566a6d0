"""Layers that learn from data before training: they learn what they learn in Keras, and it is kept."""

import csv
import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from dsl.diagnostics import RunError
from tests.support import refusal
from tfdeploy import api

SPEC = """
tfdeploy = 1

model "m" {{
  text = input(string, [])
  word = input(string, [1])
  id = input(int64, [1])
  size = input(float32, [2])
  label = input(int32, [])

  scaled = size * 2 - 1 -> Normalization(adapt = data.train, name = "norm")
  bins = scaled -> Discretization(num_bins = 3, adapt = data.train, name = "bins")
  tokens = text
    -> TextVectorization(max_tokens = 6, output_sequence_length = 3, adapt = data.train, name = "tokens")
  weighed = text -> TextVectorization(output_mode = tf_idf, ngrams = 2, adapt = data.train, name = "weighed")
  place = word -> StringLookup(output_mode = multi_hot, adapt = data.train, name = "place")
  number = id -> IntegerLookup(mask_token = 0, adapt = data.train, name = "number")
  known = word -> StringLookup(vocabulary = "words.txt", name = "known")
  all = ops.concatenate([
    scaled, bins -> Embedding(3, 2) -> Flatten(), tokens -> Embedding(6, 2) -> Flatten(), weighed,
    ops.cast(place, float32), number -> Embedding(10, 2) -> Flatten(), known -> Embedding(4, 2) -> Flatten(),
  ], axis = -1)
  logits = all -> Dense(2, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
}}

data {{
  train = csv("data.csv", text = "text", word = ["word"], id = ["id"], size = ["a", "b"], label = "label")
    -> shuffle(7)
}}

devices {{ cpu = 2 }}
clones {{ count = 2, batch = 4 }}
update {{ optimizer = SGD(0.1) }}
train {{ steps = {steps}, directory = "{directory}", seed = 3 }}
"""
WORDS = ["ham", "egg", "Käse"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with data and a file of words."""
    made = tmp_path_factory.mktemp("adapt")
    generator = np.random.default_rng(3)
    texts = ["The cat sat!", "a dog; the cat", "", "egg AND ham", "the the egg", "ham"]
    with (made / "data.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "word", "id", "a", "b", "label"])
        for at in range(32):
            numbers = generator.standard_normal(2) * (1, 30) + (2, -400)
            word = str(generator.choice(["ham", "egg", "Käse", "tea"]))
            row = [texts[at % 6], word, int(generator.integers(0, 9)), *numbers, at % 2]
            writer.writerow(row)
    (made / "words.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return made


def read(folder: Path) -> dict[str, Any]:
    """Return the data as arrays."""
    with (folder / "data.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        "text": np.array([each["text"] for each in rows], object),
        "word": np.array([[each["word"]] for each in rows], object),
        "id": np.array([[int(each["id"])] for each in rows]),
        "size": np.array([[each["a"], each["b"]] for each in rows], np.float32),
        "label": np.array([int(each["label"]) for each in rows], np.int32),
    }


def spec(folder: Path, text: str = SPEC, steps: int = 2, **changed: str) -> Any:
    """Return the spec in a folder; `changed` are replacements in its text."""
    written = text.format(steps=steps, directory=folder / "run")
    for old, new in changed.items():
        written = written.replace(old, new)
    (folder / "spec.tfdeploy").write_text(written, encoding="utf-8")
    return api.load(folder / "spec.tfdeploy")


def in_keras(arrays: dict[str, Any]) -> dict[str, keras.Layer]:
    """Return layers that have learnt in Keras, by their names in the spec."""
    layers = keras.layers
    norm, bins = layers.Normalization(), layers.Discretization(num_bins=3)
    scaled = arrays["size"] * 2 - 1
    norm.adapt(scaled)
    bins.adapt(np.asarray(norm(scaled)))
    found = {"norm": norm, "bins": bins}
    for name, of, layer in (
        ("tokens", "text", layers.TextVectorization(max_tokens=6, output_sequence_length=3)),
        ("weighed", "text", layers.TextVectorization(output_mode="tf_idf", ngrams=2)),
        ("place", "word", layers.StringLookup(output_mode="multi_hot")),
        ("number", "id", layers.IntegerLookup(mask_token=0)),
    ):
        layer.adapt(tf.data.Dataset.from_tensor_slices(arrays[of]).batch(8))
        found[name] = layer
    return found


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    """Return the folder after two steps of training."""
    api.run(spec(folder), resume="never")
    return folder


@pytest.mark.full
@pytest.mark.slow
def test_layers_learn_what_they_learn_in_keras(trained: Path) -> None:
    """What the layers of the exported model give is what layers give that are adapted in Keras."""
    arrays = read(trained)
    model = keras.saving.load_model(trained / "run" / "model.keras", safe_mode=True)
    expected = in_keras(arrays)
    for name, of in (("tokens", "text"), ("weighed", "text"), ("place", "word"), ("number", "id")):
        given = tf.constant(arrays[of])
        np.testing.assert_allclose(
            model.get_layer(name)(given), expected[name](given), rtol=1e-6, err_msg=name
        )
    scaled = tf.constant(arrays["size"] * 2 - 1)
    np.testing.assert_allclose(model.get_layer("norm")(scaled), expected["norm"](scaled), atol=1e-5)
    boundaries = model.get_layer("bins").bin_boundaries
    np.testing.assert_allclose(boundaries, expected["bins"].bin_boundaries, atol=1e-5)
    assert model.get_layer("known").get_vocabulary() == ["[UNK]", *WORDS]


@pytest.mark.full
@pytest.mark.slow
def test_a_run_that_goes_on_learns_nothing_anew(trained: Path) -> None:
    """The record is read although the data has changed, and a changed setting is refused at its layer."""
    folder = trained
    record = (folder / "run" / "layer_states.json").read_bytes()
    assert set(json.loads(record)["layers"]) == {"norm", "bins", "tokens", "weighed", "place", "number"}
    data = (folder / "data.csv").read_text()
    try:
        (folder / "data.csv").write_text(data + "new words,tea,7,0,0,1\n" * 16)
        assert api.run(spec(folder, steps=3)).steps == 3
        assert (folder / "run" / "layer_states.json").read_bytes() == record
        found = refusal(api.run, spec(folder, steps=4, **{"max_tokens = 6": "max_tokens = 5"}))
        assert found.code == "TFD582"
        assert found.span.text.startswith("TextVectorization(max_tokens = 5")
        (folder / "run" / "layer_states.json").write_bytes(record[:-40])
        with pytest.raises(RunError, match="TFD582"):
            api.evaluate(spec(folder, steps=3))
    finally:
        (folder / "data.csv").write_text(data)
