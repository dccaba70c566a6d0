"""Metrics of the global batch: the states of the towers are added up, and Keras computes the result.

The state of a Keras metric starts from zero, and figures are only ever added to it. The contributions of
towers, and of batches, may therefore be summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from compiler.graph.compiled import MetricTensors
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.tower.network.keras_scope import stateless
from compiler.graph.tower.refusals import refusal
from compiler.model.graph import ObjectiveNode


def combine_metric(
    node: ObjectiveNode, towers: Sequence[StampedTower], scope: str = "metrics"
) -> MetricTensors:
    """Return a metric over the batches of all `towers`, made on the current device.

    Args:
        node: The metric in the model.
        towers: The towers, each with the states of the metric for its own batch.
        scope: The name scope of the ops.
    """
    with tf.name_scope(f"{scope}/{node.name}/"):
        parts = [[tower.tensor(name) for name in tower.template.metric_states[node.name]] for tower in towers]
        states = [
            tf.add_n(list(each)) if len(each) > 1 else tf.identity(each[0])
            for each in zip(*parts, strict=True)
        ]
    return metric_of(node, towers[0].template.metrics[node.name], states, scope)


def metric_of(node: ObjectiveNode, metric: Any, states: Sequence[tf.Tensor], scope: str) -> MetricTensors:
    """Return the metric for states that have been added up, made on the current device.

    Args:
        node: The metric in the model.
        metric: The Keras object.
        states: Its states.
        scope: The name scope of its ops.

    Raises:
        SpecError: Code of the user's raises an exception.
    """
    with tf.name_scope(f"{scope}/{node.name}/"), stateless(), refusal(node.label, [], node.span):
        found = metric.stateless_result(list(states))
        by_variable = {id(each): state for each, state in zip(metric.variables, states, strict=True)}
        result = tf.identity(by_variable.get(id(found), found), name="result")  # it may be a variable itself
    return MetricTensors(tuple(states), result)
