"""`MultiWorkerMirroredStrategy` on processes of its own.

`python -m benchmarks.contenders.multi_worker MODEL STEPS`: TF_CONFIG says which worker a process is. Each
prints the seconds of STEPS steps after as many for warming up. The weights are plain variables and the loop
is written by hand, because the variables of Keras 3 do not work under this strategy.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.contenders.parameter_server import EXAMPLES
from benchmarks.models import PROBLEMS

RATE = 0.01

LAYERS = {
    "mlp": [(784, 512), (512, 512), (512, 10)],
    "lenet": [(5, 5, 1, 32), (5, 5, 32, 64), (7 * 7 * 64, 512), (512, 10)],
}
"""The shapes of the kernels of each model; those with four axes are of convolutions before a pooling."""


def forward(kernels: Sequence[Any], biases: Sequence[Any], x: Any) -> Any:
    """Return the logits of a model with these weights."""
    import tensorflow as tf

    for at, (kernel, bias) in enumerate(zip(kernels, biases, strict=True)):
        if len(kernel.shape) > 2:  # noqa: PLR2004  # a convolution
            x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME") + bias), 2, 2, "VALID")
            continue
        x = tf.reshape(x, [x.shape[0], -1]) @ kernel + bias
        x = tf.nn.relu(x) if at < len(kernels) - 1 else x
    return x


def train(model: str, steps: int) -> float:
    """Train a model as the worker that TF_CONFIG names.

    Args:
        model: The name of the model.
        steps: The number of steps that are timed, after as many others.

    Returns:
        The seconds of the steps.
    """
    import tensorflow as tf

    problem, strategy = PROBLEMS[model], tf.distribute.MultiWorkerMirroredStrategy()
    count = strategy.num_replicas_in_sync
    with strategy.scope():
        initial = tf.keras.initializers.GlorotUniform(1)
        kernels = [tf.Variable(initial(shape)) for shape in LAYERS[model]]
        biases = [tf.Variable(tf.zeros(shape[-1])) for shape in LAYERS[model]]
    weights = [*kernels, *biases]

    def dataset(_: Any) -> Any:
        whole = tf.data.Dataset.from_tensor_slices(problem.arrays(EXAMPLES * problem.batch)).cache().repeat()
        return whole.batch(problem.batch, drop_remainder=True).prefetch(2)

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = forward(kernels, biases, x)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.reduce_mean(losses) / count
        gradients = tape.gradient(loss, weights)
        gradients = tf.distribute.get_replica_context().all_reduce("sum", gradients)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(RATE * gradient)
        return loss

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def step(batches: Any) -> Any:
        return strategy.reduce("sum", strategy.run(replica, args=next(batches)), axis=None)

    batches = iter(strategy.distribute_datasets_from_function(dataset))
    return timed(lambda: step(batches), steps)


def timed(step: Callable[[], Any], steps: int) -> float:
    """Return the seconds of some steps, after as many others."""
    for _ in range(steps):
        step()
    began = time.perf_counter()
    for _ in range(steps):
        step()
    return time.perf_counter() - began


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    print(json.dumps({"seconds": train(sys.argv[1], int(sys.argv[2]))}), flush=True)
    os._exit(0)
