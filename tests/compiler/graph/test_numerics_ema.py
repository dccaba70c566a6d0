"""The moving average of the weights is TensorFlow's own, and evaluation reads it."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.export import keras_model
from tests.models import data, model
from tests.support import Training

NAMES = ("hidden/kernel", "hidden/bias", "logits/kernel", "logits/bias")


@pytest.mark.parametrize("rule", ["variables -> cpu[0]", "variables -> replicated"])
def test_it_is_that_of_tensorflow(rule: str) -> None:
    """Over the same weights tf.train.ExponentialMovingAverage has the same averages after every step."""
    spec = model("dense", clones=2, batch=12, place=rule, update__ema="0.8", optimizer="Adam(0.1)")
    history = []
    with Training(spec, data("dense")) as training:
        for _ in range(5):
            history.append(training.values())
            training.steps(1)
        history.append(training.values())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weights = [tf.compat.v1.Variable(history[0][name], use_resource=True) for name in NAMES]
        average = tf.train.ExponentialMovingAverage(0.8)
        advance = average.apply(weights)
        session.run(tf.compat.v1.global_variables_initializer())
        for values in history[1:]:
            feed = {
                each.initializer.inputs[1]: values[name] for each, name in zip(weights, NAMES, strict=True)
            }
            session.run([each.initializer for each in weights], feed)
            session.run(advance)
            expected = session.run([average.average(each) for each in weights])
            found = [values[f"{name}/ExponentialMovingAverage"] for name in NAMES]
            for ours, theirs in zip(found, expected, strict=True):
                assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-7)


def test_evaluation_and_export_use_it() -> None:
    """What evaluation predicts, and a Keras model with the averages, is what the averages give in NumPy."""
    arrays = data("dense")
    spec = model("dense", clones=2, batch=12, update__ema="0.8", optimizer="SGD(1)")
    with Training(spec, arrays) as training:
        training.steps(3)
        values, evaluation = training.values(), training.compiled.evaluation
        start = evaluation.pipe.attach(lambda: tf.data.Dataset.from_tensors(arrays))
        training.session.run(start)
        outputs = training.session.run(evaluation.outputs)
        averages = {name: values[f"{name}/ExponentialMovingAverage"] for name in NAMES}
        exported = keras_model(training.compiled, {**values, **averages})
    expected = _predicted(averages, arrays["x"])
    assert outputs == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert exported(arrays["x"]).numpy() == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert np.abs(expected - _predicted({name: values[name] for name in NAMES}, arrays["x"])).max() > 1e-3


def _predicted(weights: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    kernel, bias, last, offset = (weights[name] for name in NAMES)
    found: np.ndarray = np.tanh(x.reshape(len(x), -1) @ kernel + bias) @ last + offset
    return found
