"""Several outputs of a model, and files of predictions of all types, which have them by name."""

import csv
from pathlib import Path
from typing import Any

import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

import grammar
from grammar.unparse import unparse
from tests.support import Training, refusal, spec_of
from tfdeploy import api
from tfdeploy.runtime.trained.predict import PredictionFile

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
        assert again.model == spec.model
    assert [each.name for each in spec.model.outputs] == ["only"]


SHAPES = {"tag": (None, 2), "guess": ()}
BATCHES = (
    {"tag": np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2), "guess": np.array([7])},
    {"tag": np.arange(1, 7, dtype=np.float32).reshape(1, 3, 2), "guess": np.array([8])},
)


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_shorter_batches_are_filled_with_zeros(kind: str, tmp_path: Path) -> None:
    """Every example has the columns, or the shape, of the longest batch, which may come last."""
    path = tmp_path / f"p.{kind}"
    with PredictionFile.open(path, SHAPES) as written:
        for batch in BATCHES:
            written.add(batch)
    assert written.count == 2
    expected = [[[1, 2], [3, 4], [0, 0]], [[1, 2], [3, 4], [5, 6]]]
    if kind == "npz":
        with np.load(path) as found:
            assert found["tag"].tolist() == expected
            assert found["guess"].tolist() == [7, 8]
    else:
        assert path.read_text().splitlines() == [
            "tag_0_0,tag_0_1,tag_1_0,tag_1_1,tag_2_0,tag_2_1,guess",
            "1,2,3,4,0,0,7",
            "1,2,3,4,5,6,8",
        ]


def test_no_example_of_any_size(tmp_path: Path) -> None:
    """Without an example, the sizes are not known, and the table is empty."""
    path = tmp_path / "p.csv"
    with PredictionFile.open(path, SHAPES):
        pass
    assert path.read_bytes() == b""


WORDS = ("a b", "", 'd, "e"', "ü\nx")


def test_all_types_can_be_written(tmp_path: Path) -> None:
    """Texts are texts, whole numbers and truth values exact, and bfloat16 is float32, in both files."""
    outputs = {
        "word": np.array([each.encode() for each in WORDS], object).reshape(2, 2),
        "file": np.array([True, False]),
        "large": np.array([2**62 + 1, -1], np.int64),
        "short": np.array([1.5, -0.25], ml_dtypes.bfloat16),
        "long": np.array([1 / 3, 1e-300]),
    }
    shapes = {name: each.shape[1:] for name, each in outputs.items()}
    for kind in ("csv", "npz"):
        with PredictionFile.open(tmp_path / f"p.{kind}", shapes) as written:
            written.add(outputs)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as found:
        assert found["word"].tolist() == [[*WORDS[:2]], [*WORDS[2:]]]
        assert found["short"].dtype == np.float32
        assert found["short"].tolist() == [1.5, -0.25]
        for name in ("file", "large", "long"):
            assert found[name].dtype == outputs[name].dtype
            assert found[name].tolist() == outputs[name].tolist()
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["word_0", "word_1", "file", "large", "short", "long"]
    assert rows[0] == [*WORDS[:2], "1", str(2**62 + 1), "1.5", "0.33333333333333331"]
    assert rows[1][:-1] == [*WORDS[2:], "0", "-1", "-0.25"]
    assert float(rows[1][-1]) == 1e-300


def test_texts_of_batches_of_any_size(tmp_path: Path) -> None:
    """Behind shorter batches are empty texts."""
    batches = [np.array([[b"a"]], object), np.array([[b"bcd", b"e"]], object)]
    for kind in ("csv", "npz"):
        with PredictionFile.open(tmp_path / f"p.{kind}", {"word": (None,)}) as written:
            for each in batches:
                written.add({"word": each})
    with np.load(tmp_path / "p.npz", allow_pickle=False) as found:
        assert found["word"].tolist() == [["a", ""], ["bcd", "e"]]
    assert (tmp_path / "p.csv").read_text().splitlines() == ["word_0,word_1", "a,", "bcd,e"]
