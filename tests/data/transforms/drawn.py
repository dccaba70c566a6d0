"""Random numbers of many examples, as arrays."""

import numpy as np
import tensorflow as tf

from dsl import ir
from tfdeploy.data.small_graphs import evaluate
from tfdeploy.data.transforms.images import Draws, Mixup, draws_of


def drawn(seed: int, passes: int, numbers: int, draws: int, alpha: float | None = None) -> np.ndarray:
    """Return the numbers of each pass, draw and example, of shape [passes, draws, numbers].

    With `alpha`, return one number of the distribution Beta(alpha, alpha) of each example of the first pass.
    """
    change = Mixup(ir.Call("mixup", ("image", "label", 1.0)))
    change.draws = tuple(range(draws or 1))

    def of_pass(now: int) -> Draws:
        count = tf.range(numbers, dtype=tf.int64)
        return draws_of({0: change}, tf.stack([tf.zeros_like(count) + now, count], axis=-1), seed)[0]

    if alpha is not None:
        return np.asarray(evaluate(lambda: of_pass(0).beta(alpha)))
    return np.asarray(evaluate(lambda: [of_pass(now).numbers for now in range(passes)]))
