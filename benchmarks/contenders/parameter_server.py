"""`ParameterServerStrategy` on processes of its own.

`python -m benchmarks.contenders.parameter_server MODEL STEPS`: TF_CONFIG says which task a process is. The
chief trains by a coordinator, a batch of one worker a step, and prints the seconds of STEPS steps after as
many for warming up; the other tasks serve until they are ended.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from benchmarks.models import PROBLEMS, Problem


def main(model: str, steps: str) -> None:
    """Be the task that TF_CONFIG names."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in {"worker", "ps"}:
        server = tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol="grpc",
        )
        server.join()
    else:
        print(json.dumps({"seconds": _train(PROBLEMS[model], int(steps), resolver)}), flush=True)
        os._exit(0)


def _train(problem: Problem, steps: int, resolver: Any) -> float:
    import keras
    import tensorflow as tf

    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        model = problem.keras_model()
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        optimizer.build(model.trainable_variables)
        cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def dataset() -> Any:
        arrays = problem.arrays(4 * problem.batch)
        whole = tf.data.Dataset.from_tensor_slices(arrays).repeat()
        return whole.batch(problem.batch, drop_remainder=True).prefetch(2)

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def step(iterator: Any) -> Any:
        def replica(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = cross_entropy(y, model(x, training=True))
            gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        return strategy.run(replica, args=next(iterator))

    batches = iter(coordinator.create_per_worker_dataset(dataset))
    for _ in range(steps):
        coordinator.schedule(step, args=(batches,))
    coordinator.join()
    began = time.perf_counter()
    for _ in range(steps):
        coordinator.schedule(step, args=(batches,))
    coordinator.join()
    return time.perf_counter() - began


if __name__ == "__main__":
    main(*sys.argv[1:])
