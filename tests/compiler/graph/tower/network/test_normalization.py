"""Batch normalisation of images is one op, which computes what Keras's layer does."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import keras
import pytest

from compiler.graph.adapters.keras_private import flattened_layers
from compiler.graph.compiled import CompiledGraph
from compiler.graph.storage.export import plain_model
from compiler.graph.tower.network import normalization
from tests.bfloat16 import MIXED_BFLOAT16
from tests.graphs import graph_of
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
    return Counter(op.type for op in graph_of(spec).graph.get_operations())


@pytest.mark.family(every=9)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("precision", ["float32", MIXED_BFLOAT16])
def test_it_computes_what_keras_does(form: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, moving statistics and losses are those of Keras's own ops, apart from rounding."""
    spec = model("normal", layers=FORMS[form], optimizer="Momentum(0.1)", update__precision=precision)
    found, losses = train(spec, data("normal"), 4)
    monkeypatch.setattr(normalization, "SMALLEST_EPSILON", 1.0)  # no layer reaches that
    expected, own = train(spec, data("normal"), 4)
    tolerance = 2e-5 if precision == "float32" else 2e-2
    assert largest_difference(found, expected) < tolerance
    assert losses == pytest.approx(own, rel=tolerance)


@pytest.mark.family(every=2)
@pytest.mark.parametrize(
    ("layers", "batch_norm", "forward", "back"),
    [
        (PLAIN, "first", 3, 2),
        # There is no fused op for other shapes and axes, very small epsilons and renormalisation.
        ("-> BatchNormalization(axis = 1) -> Flatten()", "first", 0, 0),
        # Synchronized layers exchange moments; what is evaluated has nothing to exchange.
        (PLAIN, "synchronized", 1, 0),
        ("-> BatchNormalization(renorm = true) -> Flatten()", "first", 0, 0),
        ("-> BatchNormalization(epsilon = 1e-6) -> Flatten()", "first", 0, 0),
        ("-> Flatten() -> BatchNormalization()", "first", 0, 0),
    ],
    ids=["plain", "another-axis", "synchronized", "renorm", "epsilon", "no-image"],
)
def test_how_often_the_fused_op_is_there(layers: str, batch_norm: str, forward: int, back: int) -> None:
    """Once for each of two clones and the evaluation, and for the gradients of the clones."""
    found = kinds(layers, batch_norm=batch_norm)
    assert (found["FusedBatchNormV3"], found["FusedBatchNormGradV3"]) == (forward, back)


MODULE = """
import keras

class Block(keras.layers.Layer):
    def __init__(self, **more):
        super().__init__(**more)
        self.norms = [keras.layers.BatchNormalization(name="held")]
    def build(self, shape):
        self.norms[0].build(shape)
    def call(self, inputs, training=None):
        return self.norms[0](inputs, training=training)

class Halved(keras.layers.BatchNormalization):
    def call(self, inputs, training=None, mask=None):
        return super().call(inputs, training=training, mask=mask) / 2

def functional():
    start = keras.Input((6, 6, 2))
    inner = keras.Sequential([keras.layers.BatchNormalization(name="inner"), keras.layers.ReLU()])
    return keras.Model(start, keras.layers.BatchNormalization(name="outer")(inner(start)))
"""
OWN = """
-> python("norms:functional") -> python("norms:Block") -> python("norms:Halved") -> Flatten()
"""


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., CompiledGraph]:
    """Return a function that compiles a model with batch normalizations of a user's making."""
    (tmp_path / "norms.py").write_text(MODULE)

    def compiled(clones: int, batch_norm: str = "first") -> CompiledGraph:
        spec = model("normal", layers=OWN, clones=clones, batch=12, update__batch_norm=batch_norm)
        return graph_of(spec, base=str(tmp_path))

    return compiled


@pytest.mark.full
def test_what_a_user_has_made_is_normalised_by_our_layers(own: Callable[..., CompiledGraph]) -> None:
    """Models, layers held by a user's own class, and one of a user's own kind, which has no fused op."""
    one, two = own(1), own(2, "synchronized")
    kinds_of = [Counter(op.type for op in each.graph.get_operations()) for each in (one, two)]
    assert [found["FusedBatchNormV3"] for found in kinds_of] == [6, 3]
    names = {op.name.rsplit("/moments")[0] for op in two.graph.get_operations() if "/moments/" in op.name}
    assert sum(name.startswith("synchronized/") for name in names) == 4
    assert list(two.weights) == list(one.weights)
    assert {name.split("/")[0] for name in one.weights} == {"functional", "block", "halved", "logits"}


def test_an_exported_model_holds_layers_of_keras_alone(
    own: Callable[..., CompiledGraph], tmp_path: Path
) -> None:
    """What is saved loads without this package, whoever made the layers."""
    exported = plain_model(own(2), base=str(tmp_path)).model
    classes = {type(each) for each in flattened_layers(exported)}
    assert keras.layers.BatchNormalization in classes
    assert [each for each in classes if each.__module__.startswith(("compiler", "tfdeploy"))] == []
    assert {each.__name__ for each in classes if not each.__module__.startswith("keras")} == {
        "Block",
        "Halved",
    }


def test_the_moving_variance_is_of_the_biased_kind() -> None:
    """It moves towards the variance of the batch as Keras defines it; the kernel gives another."""
    arrays, expected = data("normal"), 1.0
    with Training(model("normal", layers=PLAIN), arrays) as training:
        training.steps(3)
        values = training.values()
    for _ in range(3):
        expected = 0.99 * expected + 0.01 * arrays["x"].var(axis=(0, 1, 2))
    assert values["norm/moving_variance"] == pytest.approx(expected, rel=1e-6)
