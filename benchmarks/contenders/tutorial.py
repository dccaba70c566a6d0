"""The multi-tower graph as tutorials write it by hand: a loop over devices, gradients averaged one by one."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.figures import Built, Running, repeating, since_process_start
from benchmarks.models import Problem


def build(problem: Problem, towers: int) -> Built:
    """Build the towers one by one in Python."""
    made, seconds = _made(problem, towers, problem.batch)
    return Built(seconds, len(made[0].get_operations()))


def start(problem: Problem, towers: int, batch: int | None = None) -> Running:
    """Build the towers one by one in Python and make a step in a session."""
    import tensorflow as tf

    v1 = tf.compat.v1
    (graph, begin, fetches), build = _made(problem, towers, batch or problem.batch)
    config = v1.ConfigProto(device_count={"CPU": towers}, allow_soft_placement=True)
    session = v1.Session(graph=graph, config=config)
    session.run(begin)
    step = session.make_callable(fetches)
    step()
    return Running(build, repeating(step), since_process_start(), len(graph.get_operations()))


def _made(problem: Problem, towers: int, batch: int) -> tuple[tuple[Any, Any, Any], float]:
    """Return the graph, the op that initializes it, the op of a step, and the seconds of building."""
    import tensorflow as tf

    v1 = tf.compat.v1
    began = time.perf_counter()
    whole = towers * batch
    x, y = problem.arrays(4 * whole)
    with tf.Graph().as_default() as graph:
        with tf.device("/cpu:0"):
            data = (
                tf.data.Dataset.from_tensor_slices((x, y))
                .repeat()
                .batch(whole, drop_remainder=True)
                .prefetch(2)
            )
            iterator = v1.data.make_initializable_iterator(data)
            images, labels = iterator.get_next()
        train, loss = _towers(problem, images, labels, towers)
        begin = [v1.global_variables_initializer(), iterator.initializer]
    return (graph, begin, [loss, train]), time.perf_counter() - began


def _towers(problem: Problem, images: Any, labels: Any, towers: int) -> tuple[Any, Any]:
    """Return the train op and the loss of the last tower, as such scripts report it."""
    import keras
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.device("/cpu:0"):
        optimizer = v1.train.MomentumOptimizer(0.01, 0.9)
        model = problem.keras_model()
        image_parts, label_parts = tf.split(images, towers), tf.split(labels, towers)
    gradients = []
    for tower in range(towers):
        with tf.device(f"/cpu:{tower}"), tf.name_scope(f"tower_{tower}"):
            logits = model(image_parts[tower], training=True)
            losses = keras.losses.sparse_categorical_crossentropy(
                label_parts[tower], logits, from_logits=True
            )
            loss = tf.reduce_mean(losses)
            gradients.append(
                optimizer.compute_gradients(loss, [each.value for each in model.trainable_variables])
            )
    with tf.device("/cpu:0"):
        return optimizer.apply_gradients(_average(gradients)), loss


def _average(tower_gradients: list[list[tuple[Any, Any]]]) -> list[tuple[Any, Any]]:
    """Stack each variable's gradients along a new axis and take the mean, as the CIFAR-10 tutorial does."""
    import tensorflow as tf

    averaged = []
    for pairs in zip(*tower_gradients, strict=True):
        stacked = tf.concat([tf.expand_dims(gradient, 0) for gradient, _ in pairs], 0)
        averaged.append((tf.reduce_mean(stacked, 0), pairs[0][1]))
    return averaged
