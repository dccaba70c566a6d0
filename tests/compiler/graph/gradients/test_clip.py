"""Gradients before the update: those of the whole batch are clipped, those of regularizers bit for bit."""

from collections import Counter
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from dsl import ir
from tests.graphs import graph_of
from tests.models import data, model, regression
from tests.support import Training

CLIPS = ("global_norm(0.05)", "norm(0.02)", "value(0.002)")


def one_step(spec: ir.Spec, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return what one step of SGD with rate 1 takes off every weight: the gradient as it was applied."""
    with Training(spec, arrays) as training:
        before = training.values()
        training.steps(1)
        after = training.values()
    return {name: before[name] - after[name] for name in before if name != "global_step"}


def clipped(gradients: dict[str, Any], clip: str) -> dict[str, Any]:
    """Return gradients clipped by NumPy, as `clip` says."""
    kind, limit = clip.rstrip(")").split("(")
    bound = float(limit)
    if kind == "value":
        return {name: np.clip(each, -bound, bound) for name, each in gradients.items()}
    norms = {name: float(np.sqrt(np.sum(np.square(each)))) for name, each in gradients.items()}
    if kind == "global_norm":
        norms = dict.fromkeys(norms, float(np.sqrt(np.sum(np.square(list(norms.values()))))))
    return {name: each * min(1.0, bound / norms[name]) for name, each in gradients.items()}


@pytest.mark.family(every=6)
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", ["dense", "words"])
def test_the_whole_gradient_is_clipped_with_its_regularisation(kind: str, clip: str) -> None:
    """What a step takes off is the clipped sum of all clones' gradients, regularizers' included.

    Rows of one index, of which every clone has some, count as the one row that they come to.
    """
    arrays = data(kind)
    settings: dict[str, Any] = {"clones": 3, "batch": (12, 5, 7), "optimizer": "SGD(1)"}
    settings["model__regularize"] = "L2(0.1)"
    free = one_step(model(kind, **settings), arrays)
    bound = one_step(model(kind, update__clip=clip, **settings), arrays)
    expected = clipped(free, clip)
    assert any(np.abs(free[name] - expected[name]).max() > 1e-3 for name in free)
    assert bound == {name: pytest.approx(each, abs=2e-7) for name, each in expected.items()}


def test_a_gradient_within_the_limit_is_left_as_it_is() -> None:
    """A norm below the limit changes nothing at all."""
    arrays = data("dense")
    free = one_step(model("dense", optimizer="SGD(1)"), arrays)
    bound = one_step(model("dense", optimizer="SGD(1)", update__clip="global_norm(1000)"), arrays)
    assert {name: each.tolist() for name, each in bound.items()} == {
        name: each.tolist() for name, each in free.items()
    }


OWN = """
import tensorflow as tf

def cubes(weight):
    return 0.02 * tf.reduce_sum(tf.abs(weight) ** 3)

def nothing(weight):
    return tf.constant(0.5)
"""

REGULARIZERS: dict[str, Any] = {
    "L1(0.013)": lambda: keras.regularizers.L1(0.013),
    "L2(0.017)": lambda: keras.regularizers.L2(0.017),
    "L1L2(0.013, 0.017)": lambda: keras.regularizers.L1L2(0.013, 0.017),
    "OrthogonalRegularizer(0.3)": lambda: keras.regularizers.OrthogonalRegularizer(0.3),
    'python("own_penalties:cubes")': lambda: lambda weight: 0.02 * tf.reduce_sum(tf.abs(weight) ** 3),
    'python("own_penalties:nothing")': None,
}
"""What makes the same regularizer, or None if it has no gradient."""


def spec_with(regularizer: str, variables: str) -> ir.Spec:
    """Return the spec of two clones of a layer whose kernel is regularized."""
    dense = '-> Dense(5, name = "out")'
    return regression(dense, 7, 5, variables=variables, model__regularize=regularizer)


def kernels(training: Training) -> list[Any]:
    """Return every copy of the kernel."""
    copies = training.compiled.variables["out/kernel"].copies
    return [np.array(each) for each in training.session.run(list(copies))]


@pytest.mark.family(every=3)
@pytest.mark.parametrize("variables", ["cpu[1]", "replicated"])
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_a_step_without_examples_that_tell_takes_off_the_gradient_of_the_penalty(
    tmp_path: Path, regularizer: str, variables: str
) -> None:
    """Inputs are zeros, so that the kernel has no other gradient. Its bias has, and no penalty."""
    (tmp_path / "own_penalties.py").write_text(OWN)
    spec = spec_with(regularizer, variables)
    arrays = {"x": np.zeros((8, 7), np.float32), "y": np.ones((8, 5), np.float32)}
    with Training(spec, arrays, base=str(tmp_path)) as training:
        before = kernels(training)
        training.steps(1)
        after = kernels(training)
    slope = np.zeros_like(before[0])
    if REGULARIZERS[regularizer] is not None:
        weight = tf.Variable(before[0])
        with tf.GradientTape() as tape:
            penalty = REGULARIZERS[regularizer]()(weight)
        slope = tape.gradient(penalty, weight).numpy()
        assert np.abs(slope).max() > 0
    assert len(after) == (2 if variables == "replicated" else 1)
    assert [each.tolist() for each in after] == [(before[0] - slope).tolist()] * len(after)


def test_no_tensor_of_equal_numbers_is_made_for_a_sum_of_squares() -> None:
    """What is added to a gradient are a read, a number, a product and a sum."""
    compiled = graph_of(spec_with("L2(0.1)", "cpu[1]"))
    found = [op for op in compiled.graph.get_operations() if op.name.startswith("update/out/kernel/")]
    own = Counter(op.type for op in found if "/regularizer/" in op.name)
    assert own == {"ReadVariableOp": 1, "Const": 1, "Mul": 1}
    assert [op.type for op in found if op.name.endswith("/add")] == ["AddV2"]
