"""The moving average of the weights is TensorFlow's own, and evaluation reads it."""

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.storage.export import keras_model
from tests.models import data, model
from tests.support import Training

NAMES = ("hidden/kernel", "hidden/bias", "logits/kernel", "logits/bias")


@pytest.mark.family(every=4)
@pytest.mark.parametrize(
    ("rule", "ema", "decay"),
    [
        ("variables -> replicated", "EMA(0.8)", 0.8),
        ("variables -> cpu[0]", "0.8", 0.8),
        ("variables -> cpu[0]", "EMA(0.3, warm_up = true)", 0.3),
        ("slots -> cpu[1]", "EMA(decay = 0.8, warm_up = true)", 0.8),
    ],
)
def test_it_is_that_of_tensorflow(rule: str, ema: str, decay: float) -> None:
    """Over the same weights tf.train.ExponentialMovingAverage has the same averages after every step.

    The one that warms up is given the number of updates as `num_updates`; 0.3 is reached in the third step.
    """
    spec = model("dense", clones=2, batch=12, place=rule, update__ema=ema, optimizer="Adam(0.1)")
    history = []
    with Training(spec, data("dense")) as training:
        for _ in range(5):
            history.append(training.values())
            training.steps(1)
        history.append(training.values())
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weights = [tf.compat.v1.Variable(history[0][name], use_resource=True) for name in NAMES]
        updates = tf.compat.v1.placeholder_with_default(0.0, ())
        average = tf.train.ExponentialMovingAverage(decay, updates if "warm_up" in ema else None)
        advance = average.apply(weights)
        session.run(tf.compat.v1.global_variables_initializer())
        for count, values in enumerate(history[1:], start=1):
            feed = {
                each.initializer.inputs[1]: values[name] for each, name in zip(weights, NAMES, strict=True)
            }
            session.run([each.initializer for each in weights], feed)
            session.run(advance, {updates: count})
            expected = session.run([average.average(each) for each in weights])
            found = [values[f"{name}/ExponentialMovingAverage"] for name in NAMES]
            for ours, theirs in zip(found, expected, strict=True):
                assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_warming_up_counts_updates_and_goes_on(mode: str) -> None:
    """In NumPy, over the updates of all clones, and after a checkpoint from where it was."""
    spec = model(
        "dense",
        clones=2,
        batch=12,
        update__mode=mode,
        update__ema="EMA(0.99, warm_up = true)",
        optimizer="SGD(0.5)",
    )
    with Training(spec, data("dense")) as training:
        loops = [each.train_op for each in training.compiled.train_loops] or [training.compiled.train_op]
        expected, steps = training.values()[NAMES[0]].astype(np.float64), 0
        for resumed in (False, False, True):
            if resumed:
                training.assign({**training.values(), "global_step": 100})
                steps = 100
            for op in loops:
                training.session.run(op)
                steps += 1
                values = training.values()
                expected += (1 - (1 + steps) / (10 + steps)) * (values[NAMES[0]] - expected)
                assert values[f"{NAMES[0]}/ExponentialMovingAverage"] == pytest.approx(
                    expected, rel=1e-5, abs=1e-6
                )
        assert values["global_step"] == steps


def test_evaluation_and_export_use_it() -> None:
    """What evaluation predicts, and a Keras model with the averages, is what the averages give in NumPy."""
    arrays = data("dense")
    spec = model("dense", clones=2, batch=12, update__ema="0.8", optimizer="SGD(1)")
    with Training(spec, arrays) as training:
        training.steps(3)
        values, evaluation = training.values(), training.compiled.evaluation
        outputs = training.evaluated(arrays, evaluation.outputs)
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
