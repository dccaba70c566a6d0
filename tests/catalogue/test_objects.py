"""Every loss, metric, optimizer and other object that the page of names lists does what it does in Keras."""

import re
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.storage.export import keras_model
from tests.catalogue.objects import (
    ACTIVATIONS,
    CONSTRAINTS,
    INITIALIZERS,
    LOSSES,
    METRICS,
    OPTIMIZERS,
    REGULARIZERS,
    SCHEDULES,
)
from tests.support import Training, cloned, spec_of

LEARNING = """
  features = input(float32, [6])
  chosen = input(float32, [4])
  shares = input(float32, [4])
  kind = input(int32, [])
  numbers = input(float32, [3])
  signs = input(float32, [3])
  letters = input(int32, [2])

  probabilities = features -> Dense(4, activation = softmax, name = "probabilities")
  likely = features -> Dense(4, activation = sigmoid, name = "likely")
  guesses = features -> Dense(3, name = "guesses")
  direction = guesses -> UnitNormalization()
  frames = features -> Dense(20, name = "frames") -> Reshape([5, 4])
  guessed = ops.argmax(probabilities, axis = -1)

  loss = {losses}
  metrics {{
{metrics}
  }}
  output = {{
    probabilities = probabilities, likely = likely, guesses = guesses, direction = direction, frames = frames,
    guessed = guessed,
  }}
"""


def _compared(written: str) -> tuple[str, str, str, str]:
    """Return target, prediction, class and arguments of `[target, prediction] -> Class(arguments)`."""
    found = re.fullmatch(r"\[(\w+), (\w+)\] -> (\w+)\((.*)\)", written)
    return found[1], found[2], found[3], found[4]


def _keras_object(module: Any, name: str, written: str) -> Any:
    """Return the object of Keras with arguments as a spec writes them: words are strings in Python."""
    arguments = re.sub(r"\b(sum|macro|micro)\b", r"'\1'", written)
    return eval(f"module.{name}({arguments})", {"module": module})  # noqa: S307 the tables of this folder


def _every_fourth(table: Mapping[str, str], first: int) -> dict[str, str]:
    """Return every fourth entry of a table, from a given one on."""
    return dict(list(table.items())[first::4])


@pytest.mark.full
@pytest.mark.parametrize("first", range(4))
def test_every_loss_and_metric_has_the_value_that_it_has_in_keras(first: int) -> None:
    """A quarter of them in one model: metrics of the whole batch, and losses as the mean over two clones."""
    losses, metrics = _every_fourth(LOSSES, first), _every_fourth(METRICS, first)
    factors = {name: 1.0 + number / 16 for number, name in enumerate(losses)}
    text = LEARNING.format(
        losses=" + ".join(f"{factors[name]} * ({written})" for name, written in losses.items()),
        metrics="\n".join(f"    of_{name} = {written}" for name, written in metrics.items()),
    )
    random = np.random.default_rng(5)
    kind = random.permutation(np.arange(16) % 4).astype(np.int32)
    shares = random.random((16, 4), np.float32)
    arrays = {
        "features": random.standard_normal((16, 6)).astype(np.float32),
        "chosen": np.eye(4, dtype=np.float32)[kind],
        "shares": shares / shares.sum(1, keepdims=True),
        "kind": kind,
        "numbers": random.standard_normal((16, 3)).astype(np.float32),
        "signs": np.sign(random.standard_normal((16, 3))).astype(np.float32),
        "letters": random.integers(1, 4, (16, 2)).astype(np.int32),
    }
    with Training(spec_of(cloned(text, batch=8, update="optimizer = SGD(0.01)")), arrays) as training:
        compiled = training.compiled
        fetched = training.session.run(
            {
                "loss": compiled.data_loss,
                "metrics": {name: each.result for name, each in compiled.metrics.items()},
                "halves": [clone.outputs for clone in compiled.clones],
                "step": compiled.train_op,
            }
        )
        assert all(np.isfinite(each).all() for each in training.values().values())
    halves = [
        {**{key: each[8 * at : 8 * at + 8] for key, each in arrays.items()}, **half}
        for at, half in enumerate(fetched["halves"])
    ]
    total = 0.0
    for name, written in losses.items():
        target, prediction, of, arguments = _compared(written)
        loss = _keras_object(keras.losses, of, arguments)
        values = [float(loss(half[target], half[prediction])) for half in halves]
        total += factors[name] * (sum(values) if loss.reduction == "sum" else sum(values) / 2)
    assert float(fetched["loss"]) == pytest.approx(total, rel=1e-5)
    whole = {key: np.concatenate([half[key] for half in halves]) for key in halves[0]}
    for name, written in metrics.items():
        target, prediction, of, arguments = _compared(written)
        metric = _keras_object(keras.metrics, of, arguments)
        metric.update_state(whole[target], whole[prediction])
        expected = np.asarray(metric.result())
        np.testing.assert_allclose(
            fetched["metrics"][f"of_{name}"], expected, rtol=1e-4, atol=1e-5, err_msg=name
        )


@pytest.mark.full
@pytest.mark.parametrize("first", range(4))
def test_every_optimizer_schedule_and_object_of_a_weight_trains(first: int) -> None:
    """Layers beside each other, each with another object: predictions, penalties and limits are Keras's."""
    lines, groups = [], []
    regularizers, constraints = _every_fourth(REGULARIZERS, first), _every_fourth(CONSTRAINTS, first)
    for name, written in _every_fourth(OPTIMIZERS, first).items():
        lines.append(f'x -> Dense(3, name = "optimizer_{name}")')
        groups.append(f'"optimizer_{name}/*" -> {written}')
    for name, written in _every_fourth(SCHEDULES, first).items():
        lines.append(f'x -> Dense(3, name = "schedule_{name}")')
        groups.append(f'"schedule_{name}/*" -> SGD({written})')
    for name, written in regularizers.items():
        lines.append(f'x -> Dense(3, kernel_regularizer = {written}, name = "regularizer_{name}")')
    lines.append('x -> Dense(3, kernel_regularizer = l1, name = "word_of_a_regularizer")')
    for name, written in _every_fourth(INITIALIZERS, first).items():
        layer = "Conv1D(4, 6" if name == "STFT" else "Dense(3"  # a kernel of frequencies is that of windows
        source = "sound -> " if name == "STFT" else "x -> "
        end = " -> Flatten()" if name == "STFT" else ""
        lines.append(f'{source}{layer}, kernel_initializer = {written}, name = "initializer_{name}"){end}')
    for name, written in constraints.items():
        lines.append(f'x -> Dense(3, kernel_constraint = {written}, name = "constraint_{name}")')
    for name, written in _every_fourth(ACTIVATIONS, first).items():
        lines.append(f'x -> Dense(4, activation = {written}, name = "activation_{name}")')
    text = OBJECTS.format(lines=",\n    ".join(lines))
    update = "\n".join(["optimizer {", *groups, '"*" -> SGD(0.01)', "}"])
    random = np.random.default_rng(6)
    arrays = {
        "x": random.standard_normal((8, 6)).astype(np.float32),
        "sound": random.standard_normal((8, 12, 1)).astype(np.float32),
        "y": random.standard_normal((8, 1)).astype(np.float32),
    }
    with Training(spec_of(cloned(text, update=update)), arrays) as training:
        before = training.values()
        penalty = training.session.run(training.compiled.regularization)
        training.steps(2)
        after = training.values()
        plain = keras_model(training.compiled, {name: after[name] for name in training.compiled.weights})
        found = training.evaluated(arrays, training.compiled.evaluation.outputs)
    plain.run_eagerly = True
    expected = plain.predict_on_batch([arrays[each.name] for each in plain.inputs])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    for key in before:
        if key.endswith("/kernel"):
            assert np.isfinite(after[key]).all()
            assert np.any(after[key] != before[key]), key
    terms = [
        float(
            _keras_object(
                keras.regularizers,
                name,
                regularizers[name].partition("(")[2][:-1].replace("columns", "'columns'"),
            )(tf.constant(before[f"regularizer_{name}/kernel"]))
        )
        for name in regularizers
    ]
    terms.append(0.01 * float(np.abs(before["word_of_a_regularizer/kernel"]).sum()))
    assert float(penalty) == pytest.approx(sum(terms), rel=1e-5)
    for name, written in constraints.items():
        constraint = _keras_object(keras.constraints, name, written.partition("(")[2][:-1])
        kernel = after[f"constraint_{name}/kernel"]
        np.testing.assert_allclose(constraint(kernel), kernel, rtol=1e-5, atol=1e-6, err_msg=name)


OBJECTS = """
  x = input(float32, [6])
  sound = input(float32, [12, 1])
  y = input(float32, [1])
  all = [
    sound -> Flatten(),
    {lines},
  ] -> Concatenate()
  out = all -> Dense(1, name = "out")
  loss = [y, out] -> MeanSquaredError()
  output = all
"""
