"""The models of `keras.applications`, one of each family: it compiles, or takes the step of Keras."""

from typing import Any

import keras
import numpy as np
import pytest

from compiler.graph.tower.network.keras_scope import own_names
from tests.graphs import graph_of
from tests.support import Training, cloned, spec_of

SMALLEST = {"InceptionV3": 75, "InceptionResNetV2": 75, "Xception": 71}
"""The least height and width that Keras takes, where it is not 32."""

MODEL = """
  image = input(float32, [{size}, {size}, 3])
  label = input(int32, [])
  features = image
    -> applications.{name}(
      input_shape = [{size}, {size}, 3], include_top = false, weights = none, pooling = avg, name = "inner",
    )(training = {training})
  logits = features -> Dense(3, name = "logits")
  loss = [label, logits] -> SparseCategoricalCrossentropy(from_logits = true)
"""

COMPILED = (
    "ConvNeXtTiny",
    "EfficientNetV2B0",
    "InceptionResNetV2",
    "InceptionV3",
    "MobileNet",
    "MobileNetV2",
    "NASNetMobile",
    "ResNet50",
    "VGG16",
    "Xception",
)
"""One of each family of which no step is compared; the others differ in numbers of layers and channels."""

TRAINED = {
    "ResNet50V2": "false",
    "DenseNet121": "false",
    "MobileNetV3Small": "true",
    "EfficientNetB0": "false",
}
"""The models whose step is compared, and whether they are called as in training.

In training, EfficientNet drops blocks at random, and the last normalizations of the others see one number of
each of eight examples, so that a step of Keras's differs by 0.5 % if the weights differ by 1e-7.
"""


def _text(name: str, *, training: str = "true", update: str = "") -> str:
    model = MODEL.format(name=name, size=SMALLEST.get(name, 32), training=training)
    return cloned(model, update=f"optimizer = SGD(0.01)\n{update}")


@pytest.mark.full
@pytest.mark.parametrize("name", COMPILED)
def test_models_of_keras_compile_on_two_clones(name: str) -> None:
    """With all their weights, for the smallest legal input."""
    text = _text(name).replace("(training = true)", "")  # with it, EfficientNet would draw in predictions too
    compiled = graph_of(spec_of(text))
    size = SMALLEST.get(name, 32)
    plain = getattr(keras.applications, name)(
        input_shape=(size, size, 3), include_top=False, weights=None, pooling="avg"
    )
    counted = sum(int(np.prod(each.shape)) for each in plain.weights if "seed" not in each.path)
    inner = [each for each in compiled.weights.values() if each.name.startswith("inner/")]
    assert sum(int(np.prod(each.shape)) for each in inner) == counted
    assert compiled.train_op is not None


class _Inferring(keras.layers.Layer):  # type: ignore[misc] # Keras has no types
    """Calls a model as in evaluation, whatever the functional model around it says of `training`."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def call(self, inputs: Any) -> Any:
        """Return what the model predicts."""
        return self.inner(inputs, training=False)


def _trains(name: str) -> None:
    """Compare a step on two clones with one of Keras on the whole batch, from the same weights."""
    size, training = SMALLEST.get(name, 32), TRAINED[name]
    random = np.random.default_rng(2)
    arrays = {
        "image": random.random((8, size, size, 3), np.float32),
        "label": random.integers(0, 3, 8).astype(np.int32),
    }
    text = _text(name, training=training, update="batch_norm = synchronized" if training == "true" else "")
    with Training(spec_of(text), arrays) as tower:
        before = tower.values()
        (loss,) = tower.steps(1)
        after = tower.values()
    image = keras.Input((size, size, 3))
    with own_names():
        inner = getattr(keras.applications, name)(
            input_shape=(size, size, 3), include_top=False, weights=None, pooling="avg"
        )
    called = inner if training == "true" else _Inferring(inner)
    logits = keras.layers.Dense(3, name="logits")(called(image))
    model = keras.Model(image, logits)
    weights: dict[str, Any] = {
        f"inner/{each.path}": each for each in inner.weights if "seed" not in each.path
    }
    weights |= {f"logits/{each.name}": each for each in model.get_layer("logits").weights}
    assert weights.keys() == before.keys() - {"global_step"}
    for path, variable in weights.items():
        variable.assign(before[path])
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.01), loss_of, run_eagerly=True)
    assert float(model.train_on_batch(arrays["image"], arrays["label"])) == pytest.approx(loss, rel=1e-4)
    for path, variable in weights.items():
        moved = np.max(np.abs(before[path] - after[path]))
        np.testing.assert_allclose(
            after[path], variable.numpy(), rtol=0, atol=1e-6 + 1e-3 * moved, err_msg=path
        )


@pytest.mark.full
@pytest.mark.parametrize("name", TRAINED)
def test_a_step_of_a_model_of_keras_is_that_of_keras(name: str) -> None:
    """The loss, and every weight after the step."""
    _trains(name)
