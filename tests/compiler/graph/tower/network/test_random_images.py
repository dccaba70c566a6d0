"""Keras's layers that change images at random, in towers."""

import numpy as np
import pytest

from dsl import ir
from tests.graphs import graph_of
from tests.support import Training, cloned, marked, refusal_of, spec_of

MODEL = """
  image = input(float32, [8, 8, 3])
  label = input(float32, [2])
  out = image {layers} -> Flatten() -> Dense(2)
  loss = [label, out] -> MeanSquaredError()
"""
LAYERS = """
    -> RandomFlip("horizontal")
    -> RandomRotation(0.2)
    -> RandomBrightness(0.2, value_range = [0, 1])
    -> RandomErasing(value_range = [0, 1])
    -> RandomPerspective(0.5)
    -> RandAugment([0, 1])
"""


def changing(layers: str) -> ir.Spec:
    """Return the spec of clones whose images go through layers, and whose weights stay as they are."""
    return spec_of(cloned(MODEL.format(layers=layers), batch=8, update="optimizer = SGD(0.0)"))


@pytest.mark.full
def test_clones_draw_numbers_of_their_own_in_each_step_that_follow_from_the_seed() -> None:
    """Two clones on the same examples have other outputs; steps differ, and a second run is the same."""
    random = np.random.default_rng(0)
    images, labels = random.random([4, 8, 8, 3], np.float32), random.random([4, 2], np.float32)
    arrays = {"image": np.concatenate([images, images]), "label": np.concatenate([labels, labels])}
    runs = []
    for _ in range(2):
        with Training(changing(LAYERS), arrays) as training:
            runs.append(training.steps(3))
            one, two = training.session.run([clone.outputs for clone in training.compiled.clones])
        assert not np.allclose(one, two)
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 3


def test_a_layer_with_another_shape_in_evaluation_is_named_with_both_shapes() -> None:
    """A crop in training only is reported at the crop, with a label at the step that cannot use its shape."""
    found = refusal_of(lambda: graph_of(changing("-> RandomFlip() -> RandomCrop(6, 6)")))
    assert found.code == "TFD593"
    assert "`[6, 6, 3]` in training and `[8, 8, 3]` in evaluation" in found.message
    assert marked(found) == "RandomCrop(6, 6)"
    assert [label.span.text for label in found.labels] == ["Dense(2)"]


def test_a_random_perspective_is_for_training_alone() -> None:
    """Images are warped in training, by clone and step; predictions are those of the images as they are."""
    images = np.random.default_rng(0).random([4, 8, 8, 3], np.float32)
    arrays = {"image": np.concatenate([images, images]), "label": np.zeros([8, 2], np.float32)}
    with Training(changing("-> RandomPerspective(1.0)"), arrays) as training:
        evaluation, session = training.compiled.evaluation, training.session
        weights = training.values()
        plain = arrays["image"].reshape(8, -1) @ weights["dense/kernel"] + weights["dense/bias"]
        seen = training.evaluated(arrays, evaluation.outputs)
        one, two = session.run([clone.outputs for clone in training.compiled.clones])
    np.testing.assert_allclose(np.reshape(seen, (8, 2)), plain, rtol=1e-4, atol=1e-5)
    assert not np.allclose(one, plain, atol=1e-2)
    assert not np.allclose(one, two, atol=1e-2)
