"""Random numbers of many examples, as arrays."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfdeploy.data.small_graphs import evaluate
from tfdeploy.data.transforms.images import Keys


def drawn(seed: int, passes: int, numbers: int, draws: int, alpha: float | None = None) -> np.ndarray:
    """Return the numbers of each pass, draw and example, of shape [passes, draws, numbers].

    With `alpha`, return one number of the distribution Beta(alpha, alpha) of each example of the first pass.
    """

    def keys(now: int) -> Keys:
        count = tf.range(numbers, dtype=tf.int64)
        return Keys(tf.zeros_like(count) + now, count, seed)

    if alpha is not None:
        return np.asarray(evaluate(lambda: keys(0).beta(alpha)))
    return np.asarray(
        evaluate(lambda: [[keys(now).uniform(draw) for draw in range(draws)] for now in range(passes)])
    )
