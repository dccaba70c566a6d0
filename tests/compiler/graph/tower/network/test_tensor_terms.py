"""Terms of the loss that are tensors: their means over the whole batch, and what is no such term."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import Training, spec_of

TEXT = """
tfdeploy = 1
model "m" {{
  x = input(float32, [4])
  y = x -> Dense(1, use_bias = false, kernel_initializer = ones)
  square = ops.sum(ops.square(x), axis = -1)
  {lines}
}}
devices {{ cpu = 2 }}
clones {{ count = 2, batch = [3, 5] }}
update {{ optimizer = SGD(0.5) }}
"""


@pytest.mark.slow
def test_means_are_over_the_whole_batch() -> None:
    """Signs, factors and clones with other batches; the gradient is that of the mean."""
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    lines = (
        "loss = -(3 * y)[:, 0] - square / 4 + 2 * ops.square(y)[:, 0] + 0.5 * ([x, x] -> MeanSquaredError())"
    )
    with Training(spec_of(TEXT.format(lines=f"{lines}, output = y")), {"x": x}) as training:
        before = training.values()["dense/kernel"]
        (loss,) = training.steps(1)
        after = training.values()["dense/kernel"]
    y, square = (x @ before)[:, 0], np.sum(x**2, axis=-1)
    assert loss == pytest.approx(np.mean(-3 * y - square / 4 + 2 * y**2), rel=1e-5)
    gradient = np.mean((-3 + 4 * y)[:, None] * x, axis=0)
    np.testing.assert_allclose(after[:, 0], before[:, 0] - 0.5 * gradient, rtol=1e-5, atol=1e-6)
