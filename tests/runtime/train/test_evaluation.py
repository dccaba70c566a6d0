"""Evaluation is right to the last example, and the model that is left predicts the same."""

from typing import Any

import keras
import numpy as np
import pytest

from tests.runtime.conftest import DIGITS, Project
from tests.support import rounding


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


@pytest.mark.parametrize("batch", [16, pytest.param(7, marks=pytest.mark.full)])
def test_evaluation_agrees_with_numpy(project: Project, batch: int) -> None:
    """Scores over 359 examples, which no batch divides, are NumPy's with the averaged weights.

    So are the predictions of `model.keras`, which is loaded without this program in test_model_files.py.
    """
    result = project.run(train__steps=20, clones__batch=batch)
    variables = project.variables(20)
    images, labels = digits("test")
    logits = forward(variables, images, suffix="/ExponentialMovingAverage")
    shifted = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]
    kernels = [variables[f"{name}/kernel/ExponentialMovingAverage"] for name in ("hidden", "logits")]
    penalty = 1e-4 * sum(float(np.sum(np.square(each.astype(np.float64)))) for each in kernels)
    assert result.test.loss == pytest.approx(losses.mean() + penalty, rel=rounding(len(labels)))
    assert result.test.metrics["accuracy"] == pytest.approx(
        (logits.argmax(axis=1) == labels).mean(), abs=1e-7
    )
    model = keras.saving.load_model(project.run_directory / "model.keras", compile=False)
    assert model.name == "small"
    predicted = model.predict(images.astype(np.float32), verbose=0)
    assert np.max(np.abs(predicted - logits)) < 1e-5


REGULARIZED = """
tfdeploy = 1
model "m" {
  x = input(float32, [3])
  y = input(float32, [1])
  z = x -> Dense(1, name = "out", kernel_regularizer = L2(1.0), activity_regularizer = L2(0.5))
  loss = [y, z] -> MeanSquaredError()
}
data {
  train = npz("train.npz")
  test = npz("test.npz")
}
devices { cpu = 2 }
clones { count = 2, batch = [3, 5] }
update { optimizer = SGD(0.1), MODE }
train { steps = 7, seed = 3, evaluate_every = 7, log_every = 7 }
"""
MODES = {
    "plain": "mode = sync",
    "ema": "ema = 0.99",
    "local": "mode = local, average_every = 5",
    "local-ema": "mode = local, average_every = 5, ema = 0.9",
}


@pytest.mark.full
@pytest.mark.parametrize(
    "mode",
    [pytest.param(name, marks=() if name in {"ema", "local"} else pytest.mark.full) for name in MODES],
)
def test_one_set_of_weights_is_evaluated_and_exported(project: Project, mode: str) -> None:
    """The test loss is what Keras's `evaluate` says of `model.keras`: penalties and added losses count.

    Between two averagings of copies, and with a slow average, no other weights give the same loss.
    """
    generator = np.random.default_rng(1)
    weights = np.array([[3.0], [-2.0], [1.0]])
    for name in ("train", "test"):
        x = generator.normal(size=(40, 3)).astype(np.float32)
        np.savez(project.folder / f"{name}.npz", x=x, y=(x @ weights + 1).astype(np.float32))
    project.write(REGULARIZED.replace("MODE", MODES[mode]))
    result = project.run()
    model = keras.saving.load_model(project.run_directory / "model.keras")
    model.compile(loss=keras.losses.MeanSquaredError())
    with np.load(project.folder / "test.npz") as test:
        expected = model.evaluate(test["x"], test["y"], batch_size=7, verbose=0)
    assert result.test.loss == pytest.approx(expected, rel=1e-5)
    (line,) = [each for each in project.history() if each["split"] == "test"]
    assert line["loss"] == result.test.loss
    (trained,) = [each for each in project.history() if each["split"] == "train"]
    assert trained["loss"] != pytest.approx(expected, rel=1e-2)


def test_validation_is_watched(project: Project) -> None:
    """With a validation split it is that one which is evaluated during training; at the end both are."""
    text = project.spec.read_text()
    test_split = text[text.index("  test = csv") : text.index("}\n\ndevices")]
    project.write(text.replace(test_split, test_split + test_split.replace("test =", "validation =", 1)))
    result = project.run(train__steps=20, train__evaluate_every=10)
    assert project.steps("validation") == [10, 20]
    assert project.steps("test") == [20]
    assert result.validation == result.test
