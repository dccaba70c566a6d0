"""Objects that keep tensors from when they were made or built: they work in every other graph."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.kept_tensors import discarded_graph, without_tensors
from compiler.graph.storage.export import plain_model
from tests.support import Training, cloned, spec_of

HEAD = """
  x = input(float32, [3])
  label = input(int32, [])
  z = x -> {flow} -> Dense(2)
  loss = [label, z] -> SparseCategoricalCrossentropy(from_logits = true)
"""


def test_normalisation_by_given_figures_and_by_weights() -> None:
    """Two clones take the step that one tower takes on the whole batch, by hand."""
    flow = "Normalization(mean = [1.0, 2.0, 3.0], variance = [4.0, 1.0, 0.25]) -> Normalization()"
    generator = np.random.default_rng(5)
    arrays = {
        "x": generator.random((4, 3), dtype=np.float32),
        "label": np.array([0, 1, 1, 0], np.int32),
    }
    training = Training(spec_of(cloned(HEAD.format(flow=flow), batch=2)), arrays, emulate=True)
    with training as session:
        before = session.values()
        session.steps(1)
        after = session.values()
    z = (arrays["x"] - [1.0, 2.0, 3.0]) / [2.0, 1.0, 0.5]
    logits = z @ before["dense/kernel"] + before["dense/bias"]
    odds = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    slope = (odds - np.eye(2)[arrays["label"]]) / 4
    np.testing.assert_allclose(after["dense/kernel"], before["dense/kernel"] - 0.1 * z.T @ slope, atol=1e-5)
    assert plain_model(training.compiled).model.count_params() == 3 + 3 + 1 + 3 * 2 + 2


LABELS = """
  x = input(float32, [4])
  labels = input(float32, [3])
  p = x -> Dense(3, activation = sigmoid)
  loss = [labels, p] -> BinaryCrossentropy()
  metrics {
    roc = [labels, p] -> AUC(multi_label = true, num_labels = 3, label_weights = [1.0, 2.0, 0.5])
    pr = [labels, p] -> AUC(curve = PR, multi_label = true, label_weights = [1.0, 2.0, 0.5])
    one = [labels, p] -> AUC(multi_label = false, label_weights = [1.0, 2.0, 0.5])
  }
  output = p
"""


@pytest.mark.full
def test_weights_of_labels_in_an_auc() -> None:
    """Keras makes a tensor of them when the metric is made; its value is that of Keras on the whole batch."""
    random = np.random.default_rng(4)
    arrays = {
        "x": random.standard_normal((32, 4)).astype(np.float32),
        "labels": random.integers(0, 2, (32, 3)).astype(np.float32),
    }
    with Training(spec_of(cloned(LABELS, batch=16)), arrays) as training:
        compiled = training.compiled
        outputs = [clone.outputs for clone in compiled.clones]
        results = {name: each.result for name, each in compiled.metrics.items()}
        found, halves = training.session.run((results, outputs))
    weights = [1.0, 2.0, 0.5]
    for name, arguments in {
        "roc": {"multi_label": True},
        "pr": {"multi_label": True, "curve": "PR"},
        "one": {},
    }.items():
        metric = keras.metrics.AUC(label_weights=weights, **arguments)
        metric.update_state(arrays["labels"], np.concatenate(halves))
        assert float(found[name]) == pytest.approx(float(metric.result()), abs=1e-6), name


MODULE = """
from functools import partial

import keras
import numpy as np
import tensorflow as tf
from keras import ops

tensor = {maker}
SHIFT = tensor([0.5, -0.5, 0.25, 0.0])


class Scaled(keras.layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.by = {{"factors": [(tensor([1.0, 2.0, 3.0, 4.0]), "plain")]}}

    def build(self, shape):
        self.kernel = self.add_weight(shape=(4,), name="kernel", initializer="ones")
        self.places = ops.cast(ops.arange(shape[-1]), "float32") if {tensors} else np.arange(4, dtype="f4")
        super().build(shape)

    def call(self, x):
        return self.kernel * (x * self.by["factors"][0][0] + SHIFT + self.places)


def net():
    x = keras.Input((4,))
    return keras.Model(x, keras.layers.Dense(5, name="inner")(ops.multiply(x, tensor([1.0, -1.0, 2.0, 0.5]))))


def wave(speed):
    by = tensor(speed)
    return lambda x: ops.sin(by * x)


def first():
    return partial(lambda value, shape, dtype=None: ops.broadcast_to(value, shape), tensor([0.1, -0.2, 0.3]))


class Penalty(keras.regularizers.Regularizer):
    def __init__(self):
        self.factor = tensor(0.01)

    def __call__(self, x):
        return self.factor * ops.sum(ops.square(x))


class Bound(keras.constraints.Constraint):
    def __init__(self):
        self.bound = tensor(0.4)

    def __call__(self, weight):
        return ops.clip(weight, -self.bound, self.bound)


def weighted(weights):
    by = tensor(weights)
    def loss(target, prediction, factor=tensor(2.0)):
        return factor * ops.mean(by * ops.square(prediction - target), axis=-1)
    return loss


class Far(keras.metrics.Metric):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.total = self.add_weight(name="total", initializer="zeros")
        self.unit = tensor(8.0)

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(ops.sum(ops.abs(y_true - y_pred) * self.unit))

    def result(self):
        return self.total / self.unit


class Rate(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self):
        self.rates = tensor([0.1, 0.05])

    def __call__(self, step):
        return ops.take(self.rates, ops.minimum(ops.cast(step, "int32"), 1))


def optimizer():
    return keras.optimizers.SGD(Rate(), momentum=0.5)
"""

OWN = """
  x = input(float32, [4])
  y = input(float32, [3])
  p = x -> python("keeps:Scaled", name = "scaled") -> python("keeps:net", name = "net")
    -> Dense(3, activation = python("keeps:wave", speed = 0.5), kernel_initializer = python("keeps:first"),
             kernel_regularizer = python("keeps:Penalty"), kernel_constraint = python("keeps:Bound"))
  loss = [y, p] -> python("keeps:weighted", weights = [1.0, 2.0, 0.5])
  metrics { far = [y, p] -> python("keeps:Far") }
"""


def test_objects_of_the_users_that_keep_tensors(tmp_path: Path) -> None:
    """Made in `__init__`, in `build`, beside a function and with the module: as arrays in their place."""
    random = np.random.default_rng(2)
    arrays = {
        "x": random.standard_normal((8, 4)).astype(np.float32),
        "y": random.standard_normal((8, 3)).astype(np.float32),
    }
    found: list[Any] = []
    for maker in ("tf.constant", "partial(np.array, dtype=np.float32)"):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        (folder / "keeps.py").write_text(MODULE.format(maker=maker, tensors=maker == "tf.constant"))
        spec = spec_of(cloned(OWN), update__optimizer='python("keeps:optimizer")')
        with Training(spec, arrays, base=str(folder)) as training:
            results = {name: each.result for name, each in training.compiled.metrics.items()}
            scores = training.session.run((training.compiled.total_loss, results))
            found.append((scores, training.restart().steps(2), training.values()))
    (scores, losses, weights), (plain_scores, plain_losses, plain_weights) = found
    assert scores == plain_scores
    assert losses == plain_losses
    assert weights.keys() == plain_weights.keys()
    assert all((value == plain_weights[name]).all() for name, value in weights.items())
    assert losses[1] != losses[0]


def test_what_depends_on_weights_is_no_constant() -> None:
    """A tensor that is computed from a weight in `build` is left, because the weight will change."""

    class Doubled(keras.layers.Layer):  # type: ignore[misc] # Keras has no types
        def build(self, shape: Any) -> None:
            self.kernel = self.add_weight(shape=(2,), name="kernel")
            self.doubled, self.plain = 2.0 * self.kernel, tf.range(3.0)
            super().build(shape)

    layer = Doubled()
    with keras.StatelessScope(initialize_variables=False), discarded_graph() as graph:
        layer.build((None, 2))
        without_tensors(layer, graph)
    assert isinstance(layer.doubled, tf.Tensor)
    assert isinstance(layer.plain, np.ndarray)
    assert layer.plain.tolist() == [0.0, 1.0, 2.0]
