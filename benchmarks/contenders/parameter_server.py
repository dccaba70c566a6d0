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
from collections.abc import Callable
from typing import Any

from attrs import frozen

from benchmarks.models import PROBLEMS, Problem


def be_task(train: Callable[[Any], float]) -> None:
    """Run the task that TF_CONFIG names; the chief prints the seconds that the training takes.

    Args:
        train: Trains as the chief of the cluster, and returns the seconds.
    """
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
        print(json.dumps({"seconds": train(resolver)}), flush=True)
        os._exit(0)


EXAMPLES = 16  # batches that are made, and repeated


@frozen
class Coordinated:
    """A strategy, and the coordinator that gives steps to its workers.

    Attributes:
        strategy: The tf.distribute.ParameterServerStrategy.
        coordinator: The ClusterCoordinator.
    """

    strategy: Any
    coordinator: Any

    @classmethod
    def of(cls, resolver: Any, **options: Any) -> Coordinated:
        """Connect to the tasks of a cluster."""
        import tensorflow as tf

        strategy = tf.distribute.ParameterServerStrategy(resolver, **options)
        return cls(strategy, tf.distribute.coordinator.ClusterCoordinator(strategy))

    def seconds(self, replica: Callable[[Any, Any], Any], problem: Problem, steps: int) -> float:
        """Return the seconds of some steps, after as many for warming up.

        Args:
            replica: Makes a step with a batch of inputs and classes on one worker.
            problem: What is trained.
            steps: The number of steps, of all workers together.
        """
        import tensorflow as tf

        def dataset() -> Any:
            arrays = problem.arrays(EXAMPLES * problem.batch)
            whole = tf.data.Dataset.from_tensor_slices(arrays).repeat()
            return whole.batch(problem.batch, drop_remainder=True).prefetch(2)

        @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def step(iterator: Any) -> Any:
            return self.strategy.run(replica, args=next(iterator))

        batches = iter(self.coordinator.create_per_worker_dataset(dataset))
        for _ in range(steps):
            self.coordinator.schedule(step, args=(batches,))
        self.coordinator.join()
        began = time.perf_counter()
        for _ in range(steps):
            self.coordinator.schedule(step, args=(batches,))
        self.coordinator.join()
        return time.perf_counter() - began


def _train(problem: Problem, steps: int, resolver: Any) -> float:
    import keras
    import tensorflow as tf

    coordinated = Coordinated.of(resolver)
    with coordinated.strategy.scope():
        model = problem.keras_model()
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        optimizer.build(model.trainable_variables)
        cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def replica(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = cross_entropy(y, model(x, training=True))
        gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return coordinated.seconds(replica, problem, steps)


if __name__ == "__main__":
    be_task(lambda resolver: _train(PROBLEMS[sys.argv[1]], int(sys.argv[2]), resolver))
