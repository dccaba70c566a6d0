"""Metrics of the global batch: the states of the towers are added up, and Keras computes the result.

The state of a Keras metric starts from zero, and figures are only ever added to it. The contributions of
towers, and of batches, may therefore be summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.compiled import MetricTensors
from compiler.graph.fragments import write_traced
from compiler.graph.stamp.stamp import StampedTower
from compiler.graph.tower.network.keras_scope import stateless
from compiler.graph.tower.refusals import refusal
from compiler.model.graph import ObjectiveNode
from compiler.step.record import Tensor
from compiler.step.writer import Spot


def combine_metric(at: Spot, node: ObjectiveNode, towers: Sequence[StampedTower]) -> MetricTensors:
    """Write a metric over the batches of all `towers`."""
    at = evolve(at, scope=f"{at.scope}/{node.name}")
    parts = [[tower.record(name) for name in tower.template.metric_states[node.name]] for tower in towers]
    kind = "AddN" if len(towers) > 1 else "Identity"
    states = [at.sum(kind, each) for each in zip(*parts, strict=True)]
    return metric_of(at, node, towers[0].template.metrics[node.name], states)


def metric_of(at: Spot, node: ObjectiveNode, metric: Any, states: Sequence[Tensor]) -> MetricTensors:
    """Write the metric for states that have been added up.

    Raises:
        SpecError: Code of the user's raises an exception.
    """

    def result(states: Sequence[tf.Tensor]) -> tf.Tensor:
        with stateless(), refusal(node.label, [], node.span):
            found = metric.stateless_result(states)
            by_variable = {id(each): state for each, state in zip(metric.variables, states, strict=True)}
            return tf.identity(by_variable.get(id(found), found), name="result")  # it may be a variable

    return MetricTensors(tuple(states), write_traced(at, result, list(states), owner=metric))
