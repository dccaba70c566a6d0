"""Synchronous training: changing where something is computed does not change what is computed."""

import numpy as np
import pytest

from tests.support import Training, classifier, examples, largest_difference

STEPS = 5
ROUNDING = 1e-4  # float32, after a few steps of an optimizer that divides by small moments


@pytest.mark.family(every=9)
@pytest.mark.parametrize(
    "optimizer", ["SGD(0.1)", "Momentum(0.1)", "Momentum(0.1, nesterov = true)", "Adam(1e-3)"]
)
@pytest.mark.parametrize(
    "extras", [{}, {"model__regularize": "L2(1e-2)", "update__ema": "0.9"}], ids=["plain", "l2-ema"]
)
def test_clones_give_the_weights_of_one_tower_on_the_whole_batch(
    optimizer: str, extras: dict[str, str]
) -> None:
    """2, 4 and 3 unequal clones end with the weights, slots and averages of one tower on the whole batch."""
    data = examples(24 * STEPS)
    with Training(classifier(clones=1, batch=24, optimizer=optimizer, **extras), data) as one:
        one_losses, expected = one.steps(STEPS), one.values()
    for clones, batch in ((2, 12), (4, 6), (3, (12, 5, 7))):
        with Training(classifier(clones=clones, batch=batch, optimizer=optimizer, **extras), data) as several:
            losses = several.steps(STEPS)
            assert largest_difference(several.values(), expected) < ROUNDING
        assert losses == pytest.approx(one_losses, rel=1e-5)


def test_softmax_regression_follows_the_closed_form() -> None:
    """From zero weights, 20 steps of gradient descent give the losses of the formula worked out in NumPy."""
    data = examples(32)
    layers = ""
    spec = classifier(clones=2, batch=16, optimizer="SGD(0.5)", layers=layers)
    with Training(spec, data) as training:
        import tensorflow as tf

        for name in ("logits/kernel", "logits/bias"):
            variable = training.compiled.saved[name]
            with training.compiled.graph.as_default():
                training.session.run(variable.assign(tf.zeros_like(variable)))
        losses = training.steps(20)
    assert losses == pytest.approx(_softmax_losses(data, rate=0.5, steps=20), abs=1e-5)


def _softmax_losses(data: dict[str, np.ndarray], rate: float, steps: int) -> list[float]:
    """Softmax regression on the whole batch: loss, then w <- w - rate * x^T (p - y) / n."""
    x = data["image"].reshape(len(data["image"]), -1).astype(np.float64)
    y = np.eye(10)[data["digit"]]
    kernel, bias, losses = np.zeros((x.shape[1], 10)), np.zeros(10), []
    for _ in range(steps):
        logits = x @ kernel + bias
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        losses.append(float(-np.log((p * y).sum(axis=1)).mean()))
        kernel -= rate * x.T @ (p - y) / len(x)
        bias -= rate * (p - y).mean(axis=0)
    return losses


def test_clones_draw_different_dropout_masks() -> None:
    """Two clones on the same examples compute different losses under dropout, and equal ones without."""
    twice = {name: np.concatenate([array, array]) for name, array in examples(8).items()}
    for layers, different in (("-> Dropout(0.5)", True), ("", False)):
        with Training(classifier(clones=2, batch=8, layers=layers), twice) as training:
            first, second = training.session.run([clone.loss for clone in training.compiled.clones])
        assert (first != second) == different


def test_dropout_draws_anew_every_step_and_the_same_in_a_second_run() -> None:
    """With one seed two runs have the same losses, which differ from step to step on the same examples."""
    spec = classifier(clones=2, batch=8, optimizer="SGD(0.0)", layers="-> Dropout(0.5)")
    data = examples(16)
    runs = []
    for _ in range(2):
        with Training(spec, data) as training:
            runs.append(training.steps(4))
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4
