"""Metrics of the global batch: the states of the towers are added up, and Keras computes the result.

The state of a Keras metric starts from zero, and figures are only ever added to it. The contributions of
towers, and of batches, may therefore be summed.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from compiler.graph.compiled import MetricTensors
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.tower.network.keras_scope import stateless
from compiler.graph.tower.network.network import metric_for
from compiler.model.graph import ObjectiveNode


def combine_metric(
    node: ObjectiveNode, towers: Sequence[StampedTower], scope: str = "metrics"
) -> MetricTensors:
    """Return a metric over the batches of all `towers`, made on the current device."""
    with tf.name_scope(f"{scope}/{node.name}/"):
        parts = [[tower.tensor(name) for name in tower.template.metric_states[node.name]] for tower in towers]
        states = [
            tf.add_n(list(each)) if len(each) > 1 else tf.identity(each[0])
            for each in zip(*parts, strict=True)
        ]
    return metric_of(node, states, scope)


def metric_of(node: ObjectiveNode, states: Sequence[tf.Tensor], scope: str) -> MetricTensors:
    """Return the metric for states that have been added up, made on the current device."""
    with tf.name_scope(f"{scope}/{node.name}/"), stateless():
        example = tf.TensorSpec((1, _width(states)), tf.float32)
        metric = metric_for(node.call, example, example)
        result = tf.identity(metric.stateless_result(list(states)), name="result")
    return MetricTensors(tuple(states), result)


def _width(states: Sequence[tf.Tensor]) -> int:
    """Return the number of classes or columns in the states, which is 1 if they have no axis for them."""
    return max((int(each.shape[-1]) for each in states if each.shape.rank), default=1)
