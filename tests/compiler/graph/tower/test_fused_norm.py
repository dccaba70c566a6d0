"""Batch normalisation of images is one op, which computes what Keras's layer does."""

from __future__ import annotations

from collections import Counter

import pytest

from compiler.graph.build import compile_graph
from compiler.graph.tower import fused_norm
from compiler.pipeline import make_plan
from tests.models import data, model, train
from tests.support import Training, largest_difference

PLAIN = '-> BatchNormalization(name = "norm") -> Flatten()'
FORMS = {
    "plain": PLAIN,
    "bare": "-> BatchNormalization(center = false, scale = false, momentum = 0.7) -> Flatten()",
    "inside": "-> Reshape([3, 6, 2, 2]) -> TimeDistributed(BatchNormalization()) -> Flatten()",
    "twice": '-> BatchNormalization() -> Activation("tanh") -> BatchNormalization() -> Flatten()',
}


def kinds(layers: str, *, batch_norm: str = "first") -> Counter[str]:
    """Count the ops of a model of two clones by type."""
    spec = model("normal", layers=layers, clones=2, batch=12, update__batch_norm=batch_norm)
    return Counter(op.type for op in compile_graph(make_plan(spec)).graph.get_operations())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_it_computes_what_keras_does(form: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, moving statistics and losses are those of Keras's own ops, apart from rounding."""
    spec = model("normal", layers=FORMS[form], optimizer="Momentum(0.1)", update__precision=precision)
    found, losses = train(spec, data("normal"), 4)
    monkeypatch.setattr(fused_norm, "SMALLEST_EPSILON", 1.0)  # no layer reaches that
    expected, own = train(spec, data("normal"), 4)
    tolerance = 2e-5 if precision == "float32" else 2e-2
    assert largest_difference(found, expected) < tolerance
    assert losses == pytest.approx(own, rel=tolerance)


def test_each_clone_has_one_op_forward_and_one_back() -> None:
    """Two clones and the evaluation have an op each, and the clones one more for the gradient."""
    found = kinds(PLAIN)
    assert (found["FusedBatchNormV3"], found["FusedBatchNormGradV3"]) == (3, 2)


@pytest.mark.parametrize(
    "layers",
    [
        "-> Flatten() -> BatchNormalization()",
        "-> BatchNormalization(axis = 1) -> Flatten()",
        "-> BatchNormalization(epsilon = 1e-6) -> Flatten()",
        "-> BatchNormalization(renorm = true) -> Flatten()",
    ],
    ids=["no-image", "another-axis", "epsilon", "renorm"],
)
def test_what_the_op_cannot_do_is_left_to_keras(layers: str) -> None:
    """There is no fused op for other shapes and axes, very small epsilons and renormalisation."""
    assert kinds(layers)["FusedBatchNormV3"] == 0


def test_clones_that_normalise_together_do_so_by_themselves_only_in_evaluation() -> None:
    """Synchronized layers exchange moments; what is evaluated has nothing to exchange."""
    assert kinds(PLAIN, batch_norm="synchronized")["FusedBatchNormV3"] == 1


def test_the_moving_variance_is_of_the_biased_kind() -> None:
    """It moves towards the variance of the batch as Keras defines it; the kernel gives another."""
    arrays, expected = data("normal"), 1.0
    with Training(model("normal", layers=PLAIN), arrays) as training:
        training.steps(3)
        values = training.values()
    for _ in range(3):
        expected = 0.99 * expected + 0.01 * arrays["x"].var(axis=(0, 1, 2))
    assert values["norm/moving_variance"] == pytest.approx(expected, rel=1e-6)
