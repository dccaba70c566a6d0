"""`tf.distribute.MirroredStrategy` over logical CPUs with a custom loop.

The optimizer is built before tracing: variables made at the first call fail under logical devices.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.figures import Running, repeating, since_process_start
from benchmarks.models import Problem


def strategy_over(towers: int) -> Any:
    """Return a mirrored strategy over as many logical CPUs of this process."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * towers)
    return tf.distribute.MirroredStrategy([f"/cpu:{tower}" for tower in range(towers)])


def dataset(problem: Problem, towers: int) -> Any:
    """Return the data set of global batches."""
    import tensorflow as tf

    whole = towers * problem.batch
    arrays = problem.arrays(4 * whole)
    return tf.data.Dataset.from_tensor_slices(arrays).repeat().batch(whole, drop_remainder=True).prefetch(2)


def start(problem: Problem, towers: int) -> Running:
    """Build the model under the strategy and make a traced step."""
    import keras
    import tensorflow as tf

    began = time.perf_counter()
    strategy = strategy_over(towers)
    batches = iter(strategy.experimental_distribute_dataset(dataset(problem, towers)))
    with strategy.scope():
        model = problem.keras_model()
        optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        optimizer.build(model.trainable_variables)
        cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def replica_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(cross_entropy(y, model(x, training=True))) / (towers * problem.batch)
        gradients = tape.gradient(loss, [each.value for each in model.trainable_variables])
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def traced(iterator: Any) -> Any:
        losses = strategy.run(replica_step, args=next(iterator))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    build = time.perf_counter() - began
    traced(batches).numpy()
    return Running(build, repeating(lambda: traced(batches).numpy()), since_process_start())
