"""Evaluation is right to the last example, and the model that is left predicts the same."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.runtime.conftest import DIGITS

if TYPE_CHECKING:
    from tests.runtime.conftest import Project


def digits(split: str) -> tuple[Any, Any]:
    """Return images and digits of a split, read without TensorFlow."""
    with (DIGITS / f"{split}.csv").open() as file:
        header = file.readline().strip().split(",")
        rows = np.loadtxt(file, delimiter=",", dtype=np.float64)
    label = header.index("digit")
    return np.delete(rows, label, axis=1) / 16, rows[:, label].astype(int)


def forward(variables: dict[str, Any], images: Any, *, suffix: str = "") -> Any:
    """Return the logits of the small model, in float64."""
    weights = {name: variables[f"{name}{suffix}"].astype(np.float64) for name in (
        "hidden/kernel", "hidden/bias", "logits/kernel", "logits/bias",
    )}  # fmt: skip
    hidden = np.maximum(images @ weights["hidden/kernel"] + weights["hidden/bias"], 0)
    return hidden @ weights["logits/kernel"] + weights["logits/bias"]


@pytest.mark.parametrize("batch", [16, 7])
def test_evaluation_agrees_with_numpy(project: Project, batch: int) -> None:
    """Scores over 359 examples, which no batch divides, are NumPy's with the averaged weights."""
    result = project.run(train__steps=20, clones__batch=batch)
    variables = project.variables(20)
    images, labels = digits("test")
    logits = forward(variables, images, suffix="/ExponentialMovingAverage")
    shifted = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
    kernels = (variables["hidden/kernel"], variables["logits/kernel"])
    penalty = 1e-4 * sum(float(np.sum(np.square(each.astype(np.float64)))) for each in kernels)
    assert result.test.loss == pytest.approx(losses.mean() + penalty, abs=1e-6)
    assert result.test.metrics["accuracy"] == pytest.approx(
        (logits.argmax(axis=1) == labels).mean(), abs=1e-7
    )


PREDICT = """
import json, sys
import keras, numpy
model = keras.saving.load_model(sys.argv[1], compile=False)
print(json.dumps([model.name, model.predict(numpy.load(sys.argv[2]), verbose=0).tolist()]))
"""


def test_plain_keras_loads_the_model(project: Project) -> None:
    """A process with nothing but Keras loads `model.keras`, which predicts what the averaged weights do."""
    project.run(train__steps=20)
    images, _ = digits("test")
    np.save(project.folder / "images.npy", images.astype(np.float32))
    command = [sys.executable, "-c", PREDICT, str(project.run_directory / "model.keras"), "images.npy"]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=True)
    name, predicted = json.loads(done.stdout.splitlines()[-1])
    expected = forward(project.variables(20), images, suffix="/ExponentialMovingAverage")
    assert name == "small"
    assert np.max(np.abs(np.array(predicted) - expected)) < 1e-5


def test_validation_is_watched(project: Project) -> None:
    """With a validation split it is that one which is evaluated during training; at the end both are."""
    text = project.spec.read_text()
    test_split = text[text.index("  test = csv") : text.index("}\n\ndevices")]
    project.write(text.replace(test_split, test_split + test_split.replace("test =", "validation =", 1)))
    result = project.run(train__steps=20, train__evaluate_every=10)
    assert project.steps("validation") == [10, 20]
    assert project.steps("test") == [20]
    assert result.validation == result.test
