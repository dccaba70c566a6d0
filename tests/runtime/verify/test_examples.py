"""The examples that graphs are compared on."""

from __future__ import annotations

from compiler.model.elaborate import elaborate
from tests.support import spec_of
from tfdeploy.runtime.verify.examples import read_examples

SPEC = """
tfdeploy = 1

model "m" {
  image = input(float32, [4, 4, 1])
  z = image -> Flatten() -> Dense(2)
  loss = [z, z] -> MeanSquaredError()
}
data {
  train = synthetic(3, image = feature(float32, [4, 4, 1])) -> cutout(image, 2)
}
"""


def test_examples_are_those_of_training() -> None:
    """What training changes at random is changed, and small data comes round again."""
    spec = spec_of(SPEC)
    images = read_examples(spec, elaborate(spec), 8, 3)["image"]
    assert images.shape == (8, 4, 4, 1)
    assert all(1 <= (image == 0).sum() <= 4 for image in images)
