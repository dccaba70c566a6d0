"""Several outputs of a model: files of predictions, `model.keras` and the SavedModel have them by name."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import grammar
from grammar.unparse import unparse
from tests.support import Training, refusal, spec_of
from tfdeploy import api

TEXT = """
tfdeploy = 1

model "m" {
  x = input(float32, [3])
  label = input(int32, [])
  e = x -> Dense(4, name = "inner")
  logits = e -> Dense(2, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  output = {
    probabilities = ops.softmax(logits), kind = ops.argmax(logits, axis = -1)
    square = e -> Reshape([2, 2])
  }
  metrics {
    right = [label, logits] -> SparseCategoricalAccuracy()
  }
}

data {
  train = npz("train.npz")
  test = npz("train.npz")
}
devices { cpu = 2 }
clones { count = 2, batch = [5, 3] }
update { optimizer = SGD(0.1) }
train { steps = 2, seed = 1, directory = "run" }
"""


def _arrays() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {
        "x": generator.standard_normal((16, 3)).astype(np.float32),
        "label": generator.integers(0, 2, 16).astype(np.int32),
    }


@pytest.mark.full
def test_all_outputs_are_predicted_and_exported(tmp_path: Path) -> None:
    """What `predict` writes is what plain Keras and the SavedModel compute from the exported model."""
    np.savez(tmp_path / "train.npz", **_arrays())
    (tmp_path / "m.tfdeploy").write_text(TEXT)
    spec = api.load(tmp_path / "m.tfdeploy", {"train.directory": str(tmp_path / "run")})
    result = api.run(spec)
    scores = api.evaluate(spec)
    assert scores.splits["test"].loss == pytest.approx(result.test.loss)

    assert api.predict(spec, tmp_path / "train.npz", tmp_path / "out.npz") == 16
    assert api.predict(spec, tmp_path / "train.npz", tmp_path / "out.csv") == 16
    assert api.predict(spec, tmp_path / "train.npz", tmp_path / "out.csv") == 16  # replaces its own file
    written = dict(np.load(tmp_path / "out.npz"))
    model = keras.saving.load_model(tmp_path / "run" / "model.keras", safe_mode=True)
    expected = model.predict(_arrays()["x"], verbose=0)
    assert list(written) == ["probabilities", "kind", "square"]
    assert written.keys() == expected.keys()
    for name, each in expected.items():
        np.testing.assert_allclose(written[name], each, rtol=1e-5, atol=1e-6, err_msg=name)
    assert written["square"].shape == (16, 2, 2)

    with (tmp_path / "out.csv").open(newline="") as file:
        header, *rows = list(csv.reader(file))
    squares = [f"square_{row}_{column}" for row in range(2) for column in range(2)]
    assert header == ["probabilities_0", "probabilities_1", "kind", *squares]
    whole = np.concatenate([each.reshape(16, -1) for each in written.values()], axis=1)
    np.testing.assert_array_equal(np.array(rows, np.float32), whole.astype(np.float32))

    api.export(spec, tmp_path / "saved")
    served = tf.saved_model.load(tmp_path / "saved").signatures["serving_default"]
    found = served(tf.constant(_arrays()["x"]))
    assert found.keys() == written.keys()
    np.testing.assert_allclose(found["probabilities"], written["probabilities"], rtol=1e-5, atol=1e-6)


def test_clones_and_micro_batches_have_all_outputs() -> None:
    """A clone returns a dict of tensors, also in a loop over micro-batches."""
    with Training(spec_of(TEXT, update__accumulate="2"), _arrays()) as training:
        first, second = training.session.run([each.outputs for each in training.compiled.clones])
    assert list(first) == ["probabilities", "kind", "square"]
    assert [len(first[each]) for each in first] == [5] * 3
    assert [len(second[each]) for each in second] == [3] * 3
    np.testing.assert_array_equal(first["probabilities"].argmax(-1), first["kind"])


def test_micro_batches_have_texts_and_the_same_tensor_twice() -> None:
    """Any output can be that of a loop over micro-batches."""
    first, _, rest = TEXT.partition("output = {")
    words = 'kind -> StringLookup(vocabulary = ["no", "yes"], num_oov_indices = 0, invert = true)'
    text = first.replace("  loss =", "  kind = ops.argmax(logits, axis = -1)\n  loss =")
    text += f"output = {{ one = logits, two = logits, word = {words}" + " }" + rest.partition("}")[2]
    with Training(spec_of(text, update__accumulate="2"), _arrays()) as training:
        found = training.session.run(training.compiled.clones[0].outputs)
    np.testing.assert_array_equal(found["one"], found["two"])
    assert [each.decode() for each in found["word"]] == [
        ["no", "yes"][each] for each in found["one"].argmax(-1)
    ]


def test_columns_of_two_heads_with_one_name(tmp_path: Path) -> None:
    """Predictions of losses whose columns would have the same names are refused in CSV, and not in npz."""
    np.savez(tmp_path / "train.npz", **_arrays())
    first, _, rest = TEXT.partition("output = {")
    text = (
        first.replace(
            "  loss =", "  logits_0 = ops.abs(logits[:, 0])\n  loss = ([label, logits_0] -> Huber()) +"
        )
        .replace("+ [label, logits]", "+ ([label, logits]")
        .replace("= true)\n", "= true))\n")
    )
    (tmp_path / "m.tfdeploy").write_text(text + rest.partition("}")[2])
    spec = api.load(tmp_path / "m.tfdeploy", {"train.directory": str(tmp_path / "run")})
    api.run(spec)
    assert api.predict(spec, tmp_path / "train.npz", tmp_path / "out.npz") == 16
    with np.load(tmp_path / "out.npz") as found:
        assert list(found) == ["logits_0", "logits"]
    refused = refusal(api.predict, spec, tmp_path / "train.npz", tmp_path / "out.csv")
    assert refused.code == "TFD577"


def test_names_of_outputs_are_read_back() -> None:
    """The text that is made of a model with several outputs has the same outputs, also one alone."""
    first, _, rest = TEXT.partition("output = {")
    alone = first + "output = { only = logits }" + rest.partition("}")[2]
    for text in (TEXT, alone):
        spec = spec_of(text)
        again = grammar.read("again.tfdeploy", text=unparse(spec)).spec
        assert again is not None
        assert again.model == spec.model
    assert [each.name for each in spec.model.outputs] == ["only"]
