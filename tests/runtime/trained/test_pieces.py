"""A run with variables in pieces is evaluated, predicts and is exported like the same run with whole ones."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from attrs import frozen

from dsl import ir
from tfdeploy import api

TEXT = """
tfdeploy = 1

model "words" {
  word = input(int32, [5])
  label = input(int32, [])
  rows = word -> Embedding(50, 6, name = "table") -> Flatten()
  logits = rows -> Dense(7, activation = tanh, name = "inner") -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
  metrics { accuracy = [label, logits] -> SparseCategoricalAccuracy() }
}

data {
  train = npz("examples.npz")
  test = npz("examples.npz")
}

devices { cpu = 3 }
clones { count = 2, batch = [3, 5] }
place {
  clones -> cpu[0..1]
  variables -> cpu[0]
  RULES
}
update { optimizer = Momentum(0.1), ema = 0.5 }
train { steps = 6, seed = 7, directory = "run" }
"""
PIECES = 'variables("table/*") -> sharded(cpu[*])\n  variables("*/kernel") -> sharded(cpu[*], axis = 1)'
WEIGHTS = {"table/embeddings": 3, "inner/kernel": 3, "logits/kernel": 3}
"""What is cut in `PIECES`, and into how many pieces."""


@frozen
class Trained:
    """A run that has ended: its spec, its folder, and its run directory."""

    spec: ir.Spec
    folder: Path

    @property
    def run(self) -> Path:
        """The run directory."""
        return self.folder / "run"


def trained(folder: Path, rules: str) -> Trained:
    """Return a run whose variables are placed by some rules."""
    generator = np.random.default_rng(3)
    word = generator.integers(0, 50, (24, 5)).astype(np.int32)
    np.savez(folder / "examples.npz", word=word, label=word[:, 0] % 3)
    path = folder / "words.tfdeploy"
    path.write_text(TEXT.replace("RULES", rules))
    spec = api.load(path, {"train.directory": str(folder / "run")})
    assert api.run(spec).status == "finished"
    return Trained(spec, folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Trained]:
    """Return the run with pieces, and the one without."""
    one, other = (trained(tmp_path_factory.mktemp("run"), rules) for rules in (PIECES, ""))
    placed = json.loads((one.run / "placement.json").read_text())["variables"]
    counts = {each["shard"]["of"]: each["shard"]["count"] for each in placed if each["shard"] is not None}
    assert counts == WEIGHTS
    assert all(
        each["shard"] is None for each in json.loads((other.run / "placement.json").read_text())["variables"]
    )
    return one, other


def alike(found: Any, expected: Any) -> None:
    """Require that arrays have the same numbers."""
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.full
def test_it_is_evaluated_alike(pair: tuple[Trained, Trained]) -> None:
    """The loss and the metrics are the same."""
    found, expected = (api.evaluate(each.spec).splits["test"] for each in pair)
    assert found.examples == expected.examples == 24
    assert found.loss == pytest.approx(expected.loss, abs=1e-6)
    assert found.metrics == pytest.approx(expected.metrics, abs=1e-6)


def predictions(run: Trained) -> Any:
    """Return what `predict` writes for the examples."""
    path = run.folder / "out.npz"
    assert api.predict(run.spec, run.folder / "examples.npz", path, force=True) == 24
    with np.load(path) as archive:
        return archive["logits"]


@pytest.mark.full
def test_it_predicts_alike(pair: tuple[Trained, Trained]) -> None:
    """The predictions for each example are the same."""
    found, expected = map(predictions, pair)
    alike(found, expected)
    assert found.std() > 0.01  # so that rows in another order would be seen


@pytest.mark.full
def test_its_keras_file_is_alike(pair: tuple[Trained, Trained]) -> None:
    """`model.keras` has whole weights in the order of the layers, and predicts as `predict` does."""
    models = [keras.saving.load_model(each.run / "model.keras", compile=False) for each in pair]
    found, expected = (each.get_weights() for each in models)
    assert [each.shape for each in found] == [(50, 6), (30, 7), (7,), (7, 3), (3,)]
    for one, other in zip(found, expected, strict=True):
        alike(one, other)
    words = np.load(pair[0].folder / "examples.npz")["word"]
    alike(models[0].predict(words, verbose=0), predictions(pair[1]))


@pytest.mark.full
def test_its_saved_model_is_alike(pair: tuple[Trained, Trained], tmp_path: Path) -> None:
    """What the SavedModel serves is what `predict` writes without pieces."""
    api.export(pair[0].spec, tmp_path / "saved")
    served = tf.saved_model.load(tmp_path / "saved")
    words = np.load(pair[0].folder / "examples.npz")["word"]
    (found,) = served.signatures["serving_default"](tf.constant(words)).values()
    alike(found, predictions(pair[1]))
