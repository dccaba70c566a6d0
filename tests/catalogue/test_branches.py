"""Every layer and function that the page of Keras's names lists does on two clones what it does in Keras."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from compiler.graph.storage.export import keras_model
from tests.catalogue.layers import LAYERS
from tests.catalogue.operations import CONSTANT, OPERATIONS, OUTPUTS
from tests.support import Training, cloned, spec_of

MODEL = """
  vector = input(float32, [6])
  steps = input(float32, [8, 4])
  image = input(float32, [8, 8, 3])
  volume = input(float32, [4, 4, 4, 2])
  volumes = input(float32, [2, 3, 3, 3, 2])
  sound = input(float32, [64])
  boxes = input(float32, [4, 4])
  ids = input(int32, [4])
  word = input(string, [1])
  text = input(string, [])
  label = input(float32, [1])
  flat = layer(Flatten())
  unit = ops.softmax(vector)
  square = ops.matmul(ops.swapaxes(steps, 1, 2), steps) + ops.eye(4)
  heads = ops.reshape(steps, [-1, 8, 2, 2])
  rows = ops.reshape(image, [-1, 12, 16])
  patches = rows[:, :, :9]
  real, imaginary = ops.stft(sound, 16, 8, 16)
{bindings}
  all = [{flows}] -> Concatenate() -> Dense(1, name = "out")
  loss = [label, all] -> MeanSquaredError()
  output = {{ {outputs} }}
"""


def _arrays() -> dict[str, Any]:
    """Return two batches of four examples for each clone."""
    random = np.random.default_rng(4)

    def some(*shape: int) -> Any:
        return random.random((8, *shape), np.float32)

    words = np.array(["a", "b", "c"], object)
    return {
        "vector": some(6) + 0.1,
        "steps": some(8, 4),
        "image": some(8, 8, 3),
        "volume": some(4, 4, 4, 2),
        "volumes": some(2, 3, 3, 3, 2),
        "sound": some(64),
        "boxes": some(4, 4),
        "ids": random.integers(0, 5, (8, 4)).astype(np.int32),
        "word": words[random.integers(0, 3, (8, 1))],
        "text": np.array(["a b", "b", "c a b", ""] * 2, object),
        "label": some(1),
    }


def _check_branches(bindings: Mapping[str, str]) -> tuple[float, dict[str, Any]]:
    """Compare every branch of a model with the exported Keras model, after a step of training.

    Args:
        bindings: What makes the tensor of each branch, by its name: lines of a model.

    Returns:
        The loss, and the largest change of each weight in the step, by its name.
    """
    text = MODEL.format(
        bindings="\n".join(f"  {each}" for each in bindings.values()),
        flows=", ".join(f"(ops.cast({name}, float32) -> flat)" for name in bindings),
        outputs=", ".join(f"{name} = ops.cast({name}, float32)" for name in bindings),
    )
    arrays = _arrays()
    with Training(spec_of(cloned(text)), arrays) as training:
        before = training.values()
        (loss,) = training.steps(1)
        after = training.values()
        found = training.evaluated(arrays, training.compiled.evaluation.outputs)
        plain = keras_model(training.compiled, {name: after[name] for name in training.compiled.weights})
    plain.run_eagerly = True
    expected = plain.predict_on_batch([arrays[each.name] for each in plain.inputs])
    assert found.keys() == expected.keys() == bindings.keys()
    others = [
        line
        for name, line in bindings.items()
        if not np.allclose(found[name], expected[name], rtol=1e-4, atol=1e-4, equal_nan=True)
    ]
    assert others == []
    return loss, {name: float(np.max(np.abs(after[name] - before[name]))) for name in before}


@pytest.mark.full
def test_every_layer_trains_on_two_clones_and_predicts_as_in_keras() -> None:
    """Training moves the weights of each, and the exported model has the same predictions."""
    bindings = {f"of_{name}": f"of_{name} = {flow}" for name, flow in LAYERS.items()}
    loss, moved = _check_branches(bindings)
    assert np.isfinite(loss)
    del moved["global_step"]
    layers = {name.split("/")[0] for name in moved}
    assert len(layers) > 40
    still = [each for each in layers if not any(by for name, by in moved.items() if name.startswith(each))]
    assert still == []


@pytest.mark.full
@pytest.mark.parametrize("first", range(6))
def test_every_operation_gives_what_it_gives_in_keras(first: int) -> None:
    """A branch for every sixth function: in a step on two clones, in evaluation and in the exported model."""
    bindings = {}
    for name, written in list(OPERATIONS.items())[first::6]:
        bound = f"of_{name.replace('.', '_')}"
        first = f"constant_{name}" if name in CONSTANT else bound
        made = f"{', '.join([first] + ['_'] * (OUTPUTS.get(name, 1) - 1))} = {written}"
        bindings[bound] = (
            f"{made}\n  {bound} = vector + ops.mean(constant_{name})" if name in CONSTANT else made
        )
    _check_branches(bindings)
