"""Metrics of the global batch: the towers' states are added up, and Keras makes the result of the sum.

A Keras metric's state starts from zero and only ever has figures added to it, so what every tower's examples
add may be summed over towers, and over batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from compiler.graph.compiled import MetricTensors
from compiler.graph.keras_scope import stateless
from compiler.graph.network import make
from compiler.graph.stamp import StampedTower
from compiler.model_graph import ObjectiveNode


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
    """Return the metric that states add up to, made on the current device."""
    with tf.name_scope(f"{scope}/{node.name}/"), stateless():
        result = tf.identity(make(node.call, "metric").stateless_result(list(states)), name="result")
    return MetricTensors(tuple(states), result)
