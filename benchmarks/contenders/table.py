"""A table that is cut into pieces by `ParameterServerStrategy` with a partitioner.

`python -m benchmarks.contenders.table STEPS`: TF_CONFIG says which task a process is, and the chief prints
the seconds of STEPS steps after as many for warming up. Keras 3 has no variables in pieces, so the model is
written by hand: the strategy's partitioner cuts the table, `tf.nn.embedding_lookup` asks the pieces for rows,
and the rows of the gradient are subtracted from their piece, in one op for each (gradient descent needs no
slots, and no sums of rows that occur several times).
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.contenders.parameter_server import Coordinated, be_task
from benchmarks.models import COLUMNS, ROWS, TABLE

RATE = 0.01
LEAST = 1 << 20  # bytes of a piece, so that the kernel stays whole


def train(steps: int, resolver: Any) -> float:
    """Train the model with the table on the cluster.

    Args:
        steps: The number of steps, of all workers together.
        resolver: Tells the addresses of the tasks.

    Returns:
        The seconds of the second half of the steps.
    """
    import tensorflow as tf

    split = tf.distribute.experimental.partitioners.MinSizePartitioner(
        LEAST, max_shards=resolver_servers(resolver)
    )
    coordinated = Coordinated.of(resolver, variable_partitioner=split)
    with coordinated.strategy.scope():
        table = tf.Variable(_first(tf.keras.initializers.RandomUniform(seed=1), (ROWS, COLUMNS)))
        kernel = tf.Variable(_first(tf.keras.initializers.GlorotUniform(seed=1), (COLUMNS, TABLE.classes)))
        bias = tf.Variable(tf.zeros([TABLE.classes]))
    pieces = list(table.variables)

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(table, x)
            logits = tf.reduce_mean(rows, 1) @ kernel + bias
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, [*pieces, kernel, bias])
        for piece, gradient in zip(pieces, gradients, strict=False):
            piece.scatter_sub(tf.IndexedSlices(RATE * gradient.values, gradient.indices))
        kernel.assign_sub(RATE * gradients[-2])
        bias.assign_sub(RATE * gradients[-1])
        return loss

    return coordinated.seconds(replica, TABLE, steps)


def resolver_servers(resolver: Any) -> int:
    """Return the number of parameter servers of a cluster."""
    return len(resolver.cluster_spec().job_tasks("ps"))


def _first(initializer: Any, shape: tuple[int, ...]) -> Any:
    """Return what makes the first value of a variable or of a piece, which has a shape of its own."""
    import tensorflow as tf

    def made(shape: Any = shape, dtype: Any = tf.float32, **_: Any) -> Any:
        return initializer(shape, dtype)

    return made


if __name__ == "__main__":
    be_task(lambda resolver: train(int(sys.argv[1]), resolver))
