"""Layers that keep tensors from when they were built: these belong to no graph but that of the tower."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.graph.build import compile_graph
from compiler.graph.storage.export import plain_model
from compiler.pipeline import make_plan
from tests.support import Training, spec_of

HEAD = """
tfdeploy = 1
model "net" {{
  x = input(float32, {shape})
  label = input(int32, [])
  z = x -> {flow} -> Dense(2)
  loss = [label, z] -> SparseCategoricalCrossentropy(from_logits = true)
}}
devices {{ cpu = 2 }}
clones {{ count = 2, batch = 2 }}
update {{ optimizer = SGD(0.1) }}
"""


def test_normalisation_by_given_figures_and_by_weights() -> None:
    """Two clones take the step that one tower takes on the whole batch, by hand."""
    flow = "Normalization(mean = [1.0, 2.0, 3.0], variance = [4.0, 1.0, 0.25]) -> Normalization()"
    generator = np.random.default_rng(5)
    arrays = {
        "x": generator.random((4, 3), dtype=np.float32),
        "label": np.array([0, 1, 1, 0], np.int32),
    }
    training = Training(spec_of(HEAD.format(shape="[3]", flow=flow)), arrays, emulate=True)
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


@pytest.mark.full
def test_application_that_begins_with_normalisation() -> None:
    """EfficientNetV2 looks its blocks up by a name of its own, and normalises by constants."""
    application = "applications.EfficientNetV2B0(weights = none, include_top = false, pooling = avg)"
    text = HEAD.format(shape="[32, 32, 3]", flow=application)
    compiled = compile_graph(make_plan(spec_of(text), emulate=True))
    assert len(compiled.weights) == 361
    assert len(compiled.plan.towers) == 2
