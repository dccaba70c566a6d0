"""Frozen weights: a step is that of Keras with the same layers frozen, and nothing is made for them."""

from typing import Any

import keras
import numpy as np
import pytest

from tests.compiler.graph.twins import Step, follow
from tests.support import Training, cloned, marked, refusal_of, spec_of

MODEL = """
tfdeploy = 1

layer "stem" {
  x = input()
  y = x -> Conv2D(3, 1, name = "conv") -> BatchNormalization(name = "norm")
  output = y
}

model "m" {
  image = input(float32, [6, 6, 2])
  label = input(float32, [2])
  shift = weight([1, 1, 3], initializer = uniform, trainable = false)
  seen = image -> stem(trainable = false)
  moved = seen + shift
    -> python("tests.compiler.graph.tower.test_freezing:backbone", trainable = false, name = "backbone")
    -> BatchNormalization(momentum = 0.9, name = "still")
    -> BatchNormalization(momentum = 0.9, name = "norm")
  mixed = [moved, moved] -> MultiHeadAttention(1, 2, trainable = false, name = "attention")
  out = mixed -> Flatten() -> Dense(4, name = "middle") -> Dense(2, name = "out")
  loss = [label, out] -> MeanSquaredError()
  regularize = L2(0.01)
}

devices { cpu = 2 }
clones { count = 2, batch = 4 }
update {
  optimizer = Adam(0.01)
  freeze = ["still/*", "norm/gamma", "middle/kernel"]
  batch_norm = synchronized
  ema = 0.9
}
train { seed = 3 }
"""
FROZEN = ("stem/", "shift/", "backbone/", "still/", "attention/", "norm/gamma", "middle/kernel")


def backbone(name: str = "backbone") -> keras.Model:
    """Return a small model with inner layers as those of `keras.applications`."""
    layers = keras.layers
    image = keras.Input((6, 6, 3))
    x = layers.DepthwiseConv2D(3, name="depthwise", depthwise_regularizer="l2")(image)
    x = layers.ReLU(6.0)(layers.BatchNormalization(name="inner")(x))
    return keras.Model(image, layers.Reshape((4, 12))(x), name=name)


class _Shift(keras.layers.Layer):  # type: ignore[misc] # Keras has no types
    """Adds a weight."""

    def build(self, _: Any) -> None:
        """Make the weight."""
        self.value = self.add_weight(name="weight", shape=(1, 1, 3))

    def call(self, inputs: Any) -> Any:
        """Return the sum."""
        return inputs + self.value


def _keras_twin() -> keras.Model:
    """Return the model above as one writes it in Keras, with the same layers frozen."""
    layers, l2 = keras.layers, keras.regularizers.L2(0.01)
    image = keras.Input((6, 6, 2))
    x = layers.Conv2D(3, 1, name="stem_conv", kernel_regularizer=l2)(image)
    x = _Shift(name="shift")(layers.BatchNormalization(name="stem_norm")(x))
    x = layers.BatchNormalization(momentum=0.9, name="still")(backbone()(x))
    x = layers.BatchNormalization(momentum=0.9, name="norm")(x)
    x = layers.MultiHeadAttention(1, 2, name="attention", kernel_regularizer=l2)(x, x)
    x = layers.Dense(4, name="middle", kernel_regularizer=l2)(layers.Flatten()(x))
    model = keras.Model(image, layers.Dense(2, name="out", kernel_regularizer=l2)(x))
    for each in ("stem_conv", "stem_norm", "shift", "backbone", "still", "attention"):
        model.get_layer(each).trainable = False
    model.get_layer("norm").gamma.trainable = False
    model.get_layer("middle").kernel.trainable = False
    return model


def _is_frozen(name: str) -> bool:
    return name.startswith(FROZEN)


@pytest.mark.slow
def test_a_step_is_that_of_keras_with_the_same_layers_frozen() -> None:
    """Frozen normalizations infer, frozen weights have no penalty, and all others move as in Keras."""
    generator = np.random.default_rng(1)
    arrays = {
        "image": generator.standard_normal((8, 6, 6, 2)).astype(np.float32),
        "label": generator.standard_normal((8, 2)).astype(np.float32),
    }
    with Training(spec_of(MODEL), arrays) as training:
        weights = training.compiled.weights
        moving = {
            name: np.full(each.shape, 1.5, np.float32) for name, each in weights.items() if "moving" in name
        }
        training.assign(moving)
        before = training.values()
        loss = training.steps(1)[0]
        after = training.values()
        compiled = training.compiled

    for name in filter(_is_frozen, before):
        assert name in weights, f"{name} is made for a frozen weight"
        assert np.array_equal(before[name], after[name]), name
    trained = {name for name, each in weights.items() if each.trainable}
    assert trained == {"norm/beta", "middle/bias", "out/kernel", "out/bias"}
    assert not np.array_equal(before["norm/moving_mean"], after["norm/moving_mean"])
    ops = [op.name for op in compiled.graph.get_operations()]
    assert not [
        op for op in ops if op.startswith(("aggregate/", "update/")) and _is_frozen(op.split("/", 1)[1])
    ]
    assert not [op for op in ops if "gradients/" in op and ("stem/" in op or "backbone/" in op)]

    twin = _keras_twin()
    inner = {id(each) for each in twin.get_layer("backbone").weights}
    variables = {
        f"backbone/{each.path}" if id(each) in inner else each.path.replace("stem_", "stem/"): each
        for each in twin.weights
    }
    step = Step(compiled, before, after, loss, {})
    optimizer, squares = keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError()
    follow(step, twin, optimizer, squares, *arrays.values(), variables=variables)


SMALL = """
  x = input(float32, [4])
  y = x -> Dense(3, {hidden}name = "hidden") {between} -> Dense(4, {out}name = "out")
  loss = [x, y] -> MeanSquaredError()
"""


def _small(*, hidden: str = "", between: str = "", out: str = "", update: str = "", train: str = "") -> str:
    text = SMALL.format(hidden=hidden, between=between, out=out)
    return cloned(text, update=f"optimizer = SGD(0.1)\n{update}").replace("seed = 3", train)


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        (_small(update='freeze = ["hiden/*"]'), "TFD570", '["hiden/*"]'),
        (_small(update='freeze = ["*"]'), "TFD571", '["*"]'),
        (
            _small(hidden="trainable = false, ", out="trainable = false, "),
            "TFD571",
            'Dense(3, trainable = false, name = "hidden")',
        ),
        (_small(train='weights { "hiden/*" -> "a.keras" }'), "TFD572", '"hiden/*" -> "a.keras"'),
        (_small(between='-> ReLU(weights = "a.keras")'), "TFD572", '"a.keras"'),
    ],
)
def test_globs_that_match_nothing_and_frozen_models_are_refused(text: str, code: str, place: str) -> None:
    """What only the names of the weights can tell is said at its place when the graph is built."""
    found = refusal_of(lambda: Training(spec_of(text), {"x": np.zeros((8, 4), np.float32)}))
    assert found.code == code
    assert marked(found) == place


def test_local_clones_leave_frozen_copies_alone() -> None:
    """If each clone has copies of its own, those of frozen weights are neither averaged nor published."""
    text = _small(hidden="trainable = false, ", update="mode = local\n  average_every = 1")
    generator = np.random.default_rng(1)
    with Training(spec_of(text), {"x": generator.random((8, 4), np.float32)}) as training:
        before = training.values()
        training.steps(2)
        training.session.run(training.compiled.publish_op)
        after = training.values()
        ops = [op.name for op in training.compiled.graph.get_operations()]
    assert np.array_equal(before["hidden/kernel"], after["hidden/kernel"])
    assert not np.array_equal(before["out/kernel"], after["out/kernel"])
    touched = {op.split("/")[1] for op in ops if op.startswith(("average/", "publish/")) and "/kernel" in op}
    assert touched == {"out"}
