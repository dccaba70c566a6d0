"""Weights of examples and classes: a step on unequal clones is `train_on_batch` on the whole batch."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from dsl import ir
from tests.compiler.graph.twins import Step, follow, step_of
from tests.graphs import graph_of
from tests.support import Training, cloned, spec_of
from tfdeploy.data import Field, StreamOptions, open_split
from tfdeploy.runtime.session.engine import Engine
from tfdeploy.runtime.train.evaluation import evaluate

BY_WEIGHTS = "from_logits = true, reduction = mean_with_sample_weight"
MODEL = f"""
  words = input(int32, [4])
  tags = input(int32, [4])
  size = input(float32, [2])
  kind = input(float32, [3])
  heavy = input(float32, [])
  places = input(float32, [4])

  table = words -> Embedding(9, 5, mask_zero = true, name = "table")
  tag = table -> Dense(3, name = "tag")
  mean = table -> GlobalAveragePooling1D()
  guess = mean -> Dense(2, name = "guess")
  logits = mean -> Dense(3, name = "logits")

  loss = (
    ([tags, tag, places] -> SparseCategoricalCrossentropy(from_logits = true))
    + 0.5 * ([tags, tag, 2 * places] -> SparseCategoricalCrossentropy({BY_WEIGHTS}))
    + 0.3 * ([size, guess, heavy] -> MeanSquaredError())
    + 0.2 * ([size, guess, heavy * heavy] -> MeanAbsoluteError(reduction = "mean_with_sample_weight"))
    + 0.1 * ([size, guess, heavy] -> MeanSquaredError(reduction = "sum"))
    + ([kind, logits, heavy] -> CategoricalCrossentropy(from_logits = true, class_weight = [0.5, 3]))
  )
  metrics {{
    tagged = [tags, tag, places] -> SparseCategoricalAccuracy()
    error = [size, guess, heavy] -> RootMeanSquaredError()
    right = [kind, logits] -> CategoricalAccuracy(class_weight = [0.5, 3])
  }}
  output = tag
"""


def _spec(model: str = MODEL, **overrides: str) -> ir.Spec:
    return spec_of(cloned(model, batch=[5, 3], update="optimizer = SGD(0.3)"), **overrides)


def _examples(count: int = 8) -> dict[str, Any]:
    generator = np.random.default_rng(4)
    lengths = generator.integers(1, 5, (count, 1))
    return {
        "words": (generator.integers(1, 9, (count, 4)) * (np.arange(4) < lengths)).astype(np.int32),
        "tags": generator.integers(0, 3, (count, 4)).astype(np.int32),
        "size": generator.standard_normal((count, 2)).astype(np.float32),
        "kind": np.eye(3, dtype=np.float32)[generator.integers(0, 3, count)],
        "heavy": generator.integers(0, 4, count).astype(np.float32),
        "places": generator.random((count, 4), dtype=np.float32),
    }


def _keras_step(step: Step, arrays: dict[str, Any]) -> dict[str, float]:
    """Make the same step by `train_on_batch` in Keras; return its metrics."""
    layers, losses = keras.layers, keras.losses
    words = keras.Input((4,), dtype="int32")
    table = layers.Embedding(9, 5, mask_zero=True, name="table")(words)
    tag = layers.Dense(3, name="tag")(table)
    mean = layers.GlobalAveragePooling1D()(table)
    guess, logits = layers.Dense(2, name="guess")(mean), layers.Dense(3, name="logits")(mean)
    twin = keras.Model(words, [tag, tag, guess, guess, guess, logits])
    sparse = losses.SparseCategoricalCrossentropy
    by_weight = "mean_with_sample_weight"
    heavy, places = arrays["heavy"], arrays["places"]
    by_class = np.array([0.5, 3, 1], np.float32)[arrays["kind"].argmax(-1)]
    return follow(
        step,
        twin,
        keras.optimizers.SGD(0.3),
        [
            sparse(from_logits=True),
            sparse(from_logits=True, reduction=by_weight),
            losses.MeanSquaredError(),
            losses.MeanAbsoluteError(reduction=by_weight),
            losses.MeanSquaredError(reduction="sum"),
            losses.CategoricalCrossentropy(from_logits=True),
        ],
        arrays["words"],
        [arrays[each] for each in ("tags", "tags", "size", "size", "size", "kind")],
        [places, 2 * places, heavy, heavy * heavy, heavy, heavy * by_class],
        loss_weights=[1, 0.5, 0.3, 0.2, 0.1, 1],
        weighted_metrics=[
            [keras.metrics.SparseCategoricalAccuracy(name="tagged")],
            [],
            [keras.metrics.RootMeanSquaredError(name="error")],
            [],
            [],
            [],
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [pytest.param("1", marks=pytest.mark.full), "2"])
def test_a_step_is_that_of_keras(accumulate: str) -> None:
    """Weights multiply masks and classes, for every reduction, as they do in Keras for the whole batch."""
    count = 8 * int(accumulate)
    arrays = _examples(count)
    step = step_of(_spec(update__accumulate=accumulate), arrays)
    scores = _keras_step(step, arrays)
    for name in ("tagged", "error"):
        assert step.metrics[name] == pytest.approx(next(scores[each] for each in scores if name in each))


@pytest.mark.full
@pytest.mark.slow
def test_evaluation_does_not_depend_on_its_batches(tmp_path: Path) -> None:
    """Batches of 8 and 5, or one of 13: losses and metrics are those of the whole split."""
    np.savez(tmp_path / "examples.npz", **_examples(13))
    found = []
    for batch in ("4", "8"):
        spec = _spec(MODEL.replace('"sum"', '"mean"'), clones__batch=batch)
        engine = Engine.start(graph_of(spec))
        wanted = [Field(each.name, each.dtype, each.shape) for each in engine.compiled.plan.model.inputs]
        options = StreamOptions(base=tmp_path, seed=0, deterministic=True, training=False)
        stream = open_split(ir.Split("test", ir.Call("npz", ("examples.npz",))), wanted, options)
        scores = evaluate(engine, stream)
        engine.close()
        found.append({**scores.metrics, "loss": scores.data_loss})
    assert found[0] == pytest.approx(found[1], rel=1e-5)


LABELS = np.array([0, 1, 2, 1, 0, 2, 1, 1])
KINDS: dict[str, tuple[str, Any]] = {
    "SparseCategorical": ("int32, [1]", LABELS[:, None].astype(np.int32)),
    "Categorical": ("float32, [3]", np.eye(3, dtype=np.float32)[LABELS]),
    "Binary": ("float32, [1]", (LABELS[:, None] == 1).astype(np.float32)),
}


@pytest.mark.family(every=2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_weights_of_classes_are_those_of_fit(kind: str) -> None:
    """`class_weight` of a loss and of a metric does what it does in `fit`; other classes count 1."""
    name, accuracy, units = f"{kind}Crossentropy", f"{kind}Accuracy", 1 if kind == "Binary" else 3
    declared, labels = KINDS[kind]
    text = f"""
  x = input(float32, [4])
  label = input({declared})
  p = x -> Dense({units}, name = "p")
  loss = [label, p] -> {name}(from_logits = true, class_weight = [1.0, 5.0])
  metrics {{ right = [label, p] -> {accuracy}(class_weight = [1.0, 5.0]) }}
"""
    generator = np.random.default_rng(2)
    arrays = {"x": generator.standard_normal((8, 4)).astype(np.float32), "label": labels}
    step = step_of(_spec(text), arrays)
    x = keras.Input((4,))
    twin = keras.Model(x, keras.layers.Dense(units, name="p")(x))
    scores = follow(
        step,
        twin,
        keras.optimizers.SGD(0.3),
        getattr(keras.losses, name)(from_logits=True),
        *arrays.values(),
        weighted_metrics=[getattr(keras.metrics, accuracy)(name="right")],
        fitted={"class_weight": {0: 1.0, 1: 5.0}},
    )
    assert step.metrics["right"] == pytest.approx(scores["right"], rel=1e-5)


def test_no_gradient_flows_into_weights() -> None:
    """Weights that a layer computes are taken as they are: the layer learns nothing from them."""
    model = """
  x = input(float32, [3])
  label = input(float32, [1])
  gate = x -> Dense(1, activation = sigmoid, name = "gate")
  y = x -> Dense(1, name = "y")
  loss = [label, y, gate] -> MeanSquaredError()
"""
    arrays = {"x": np.ones((4, 3), np.float32), "label": np.ones((4, 1), np.float32)}
    with Training(spec_of(cloned(model, batch=2)), arrays) as training:
        before = training.values()
        training.steps(1)
        after = training.values()
    np.testing.assert_array_equal(before["gate/kernel"], after["gate/kernel"])
    assert np.abs(before["y/kernel"] - after["y/kernel"]).max() > 0
