"""Batch normalisation over several clones: whose statistics count, and statistics of the whole batch."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.tower.network.normalization import BatchNormalization, Exchanges, SyncPolicy
from tests.graphs import graph_of, map_of
from tests.models import data, model, train
from tests.support import largest_difference, marked, refusal_of

SYNCHRONIZED = {"update__batch_norm": "synchronized"}


@pytest.mark.family(every=2)
@pytest.mark.parametrize(("clones", "batch"), [(2, 12), (3, (12, 5, 7))])
def test_synchronized_clones_are_one_tower_on_the_whole_batch(clones: int, batch: Any) -> None:
    """Weights, slots, moving statistics and losses are those of one tower, for unequal batches too."""
    arrays = data("normal")
    expected, losses = train(model("normal", optimizer="Momentum(0.2)"), arrays, 4)
    spec = model("normal", clones=clones, batch=batch, optimizer="Momentum(0.2)", **SYNCHRONIZED)
    found, several = train(spec, arrays, 4)
    assert largest_difference(found, expected) < 2e-5
    assert several == pytest.approx(losses, rel=1e-5)


@pytest.mark.full
def test_a_layer_may_ask_for_it_itself() -> None:
    """With `synchronized = true` at the layer, it alone normalises by the whole batch."""
    layers = """
        -> BatchNormalization(synchronized = true, name = "whole")
        -> Conv2D(3, 3, use_bias = false, name = "conv")
        -> BatchNormalization(name = "own") -> Flatten()
    """
    arrays = data("normal")
    one, _ = train(model("normal", layers=layers), arrays, 1)
    two, _ = train(model("normal", layers=layers, clones=2, batch=12), arrays, 1)
    assert two["whole/moving_variance"] == pytest.approx(one["whole/moving_variance"], rel=1e-5)
    assert np.abs(two["own/moving_variance"] / one["own/moving_variance"] - 1).max() > 1e-4


@pytest.mark.family(every=4)
@pytest.mark.parametrize(
    "layers",
    [
        "-> Flatten() -> BatchNormalization(center = false, scale = false)",
        "-> Permute([3, 1, 2]) -> BatchNormalization(axis = 1) -> Flatten()",
        '-> BatchNormalization(renorm = true, name = "norm") -> Flatten()',
        "-> Reshape([3, 6, 4]) -> TimeDistributed(BatchNormalization()) -> Flatten()",
    ],
    ids=["plain", "channels-first", "renorm", "each-time"],
)
def test_every_form_of_the_layer_can_be_synchronized(layers: str) -> None:
    """Without scale, over another axis and with renormalisation, clones follow one tower."""
    arrays = data("normal")
    expected, _ = train(model("normal", layers=layers), arrays, 2)
    found, _ = train(model("normal", layers=layers, clones=2, batch=(8, 16), **SYNCHRONIZED), arrays, 2)
    assert largest_difference(found, expected) < 2e-5


def test_masked_positions_count_for_nothing() -> None:
    """Behind a mask the whole batch is what it leaves of all clones, of which one may have little left."""
    normal = '-> BatchNormalization(name = "norm")'
    layers = f"-> Embedding(40, 4, mask_zero = true) {normal} -> GlobalAveragePooling1D()"
    arrays = data("words")
    arrays["x"][:14, 2:] = 0  # the first clones see mostly padding
    expected, _ = train(model("words", layers=layers), arrays, 2)
    spec = model("words", layers=layers, clones=3, batch=8, **SYNCHRONIZED)
    found, _ = train(spec, arrays, 2)
    assert largest_difference(found, expected) < 2e-5


def test_first_takes_the_statistics_of_clone_0_and_mean_those_of_all() -> None:
    """One step moves the mean by a tenth towards that of clone 0's examples, or that of all examples."""
    arrays = data("normal")
    layers = '-> BatchNormalization(momentum = 0.9, name = "norm") -> Flatten()'
    for how, seen in (("first", arrays["x"][:12]), ("mean", arrays["x"])):
        spec = model("normal", layers=layers, clones=3, batch=(12, 5, 7), update__batch_norm=how)
        found, _ = train(spec, arrays, 1)
        assert found["norm/moving_mean"] == pytest.approx(0.1 * seen.mean(axis=(0, 1, 2)), rel=1e-5)


def test_mean_weights_variances_by_examples() -> None:
    """With `mean` the moving variance is the mean of the clones' variances, each counted by its examples."""
    arrays = data("normal")
    layers = '-> BatchNormalization(momentum = 0.9, name = "norm") -> Flatten()'
    spec = model("normal", layers=layers, clones=2, batch=(18, 6), update__batch_norm="mean")
    found, _ = train(spec, arrays, 1)
    own = [part.var(axis=(0, 1, 2)) for part in (arrays["x"][:18], arrays["x"][18:])]
    expected = 0.9 + 0.1 * (0.75 * own[0] + 0.25 * own[1])
    assert found["norm/moving_variance"] == pytest.approx(expected, rel=1e-5)


def test_the_sums_lie_with_the_layer_of_clone_0() -> None:
    """What joins the clones is aggregation, on the device of clone 0's layer, also under a rule for it."""
    spec = model("normal", clones=2, batch=12, devices=3, place='ops("norm/*") -> cpu[2]', **SYNCHRONIZED)
    placement = map_of(spec)
    joined = [op for op in placement.ops if op.name.startswith("synchronized/norm/0/")]
    assert {(op.role, op.requested, op.clone) for op in joined} == {("aggregate", "cpu[2]", None)}
    assert {op.name.split("/")[3] for op in joined} == {"moments", "gradients"}


def test_a_layer_inside_a_loop_cannot_be_synchronized() -> None:
    """Where a layer is called in the body of a loop, a graph of its own, it is refused with a reason."""
    layer = BatchNormalization()
    layer.build((None, 4))
    with tf.Graph().as_default() as graph:
        exchanges = Exchanges(SyncPolicy(every=True), graph)
        with (
            exchanges.within(layer, "norm"),
            tf.Graph().as_default(),
            pytest.raises(ValueError, match="its statistics cannot be synchronized: it is inside a loop"),
        ):
            layer.moments(tf.ones((3, 4)), None)
    assert exchanges.found == []


def test_clones_that_do_not_compute_together_cannot_synchronize_a_layer() -> None:
    """Under `async` a layer that asks for synchronized statistics is refused where it is written."""
    layers = "-> Flatten() -> BatchNormalization(synchronized = true)"
    found = refusal_of(
        lambda: graph_of(model("normal", layers=layers, clones=2, batch=12, update__mode="async"))
    )
    assert found.notes == (
        "its statistics cannot be synchronized: under `mode = async` clones do not compute at the same time",
    )
    assert marked(found).startswith("BatchNormalization(")
