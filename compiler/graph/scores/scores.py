"""The loss and metrics of a step, of the towers of one graph or of all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import MetricTensors
from compiler.graph.gradients.regularize import regularization_loss
from compiler.graph.gradients.weighting import LossSum, data_loss, loss_sums
from compiler.graph.scores.metrics import combine_metric, metric_of


@frozen
class Scores:
    """The loss and metrics of a step.

    Attributes:
        losses: The parts of the data loss.
        data_loss: The mean loss over the examples of a step; a scalar.
        regularization: The penalty of the weights; a scalar.
        total_loss: The sum of both.
        metrics: The metrics by name.
    """

    losses: tuple[LossSum, ...]
    data_loss: tf.Tensor
    regularization: tf.Tensor
    total_loss: tf.Tensor
    metrics: Mapping[str, MetricTensors]

    @property
    def states(self) -> tuple[tf.Tensor, ...]:
        """The states of the metrics, which may be added up over workers, like the parts of the loss."""
        return tuple(state for each in self.metrics.values() for state in each.states)


def scores_of(assembly: Assembly) -> Scores:
    """Return the scores of the towers of a graph."""
    plan, ledger = assembly.plan, assembly.ledger
    with ledger.place(assembly.rulebook.optimizer(), "metric"), tf.name_scope("total_loss/"):
        losses = tuple(loss_sums(assembly.towers, lambda each: plan.share(each.tower)))
        loss = data_loss(losses, "data_loss")
        shares = [plan.share(tower) for tower in plan.towers]
        terms = regularization_loss(assembly.variables.values(), shares, ledger, assembly.score_reads)
        regularization = (
            tf.add_n(terms, name="regularization") if terms else tf.constant(0.0, name="regularization")
        )
        total_loss = tf.add(loss, regularization, name="total_loss")
    with ledger.place(assembly.rulebook.optimizer(), "metric"):
        metrics = {node.name: combine_metric(node, assembly.towers) for node in plan.model.metrics}
    return Scores(losses, loss, regularization, total_loss, metrics)


def scores_of_all(
    assembly: Assembly, own: Scores, losses: Sequence[LossSum], states: Sequence[tf.Tensor]
) -> Scores:
    """Return the scores of all workers.

    Args:
        assembly: The graph under construction.
        own: The scores of the towers of this graph.
        losses: The sums of the parts of the loss over all workers.
        states: The sums of the states of the metrics over all workers.
    """
    with assembly.ledger.place(assembly.rulebook.optimizer(), "metric"):
        loss = tf.identity(data_loss(losses, "all_workers/loss"), name="all_workers/data_loss")
        total_loss = tf.add(loss, own.regularization, name="all_workers/total_loss")
        metrics, kept = {}, assembly.towers[0].template.metrics
        for node in assembly.plan.model.metrics:
            count = len(own.metrics[node.name].states)
            metrics[node.name] = metric_of(node, kept[node.name], states[:count], "all_workers/metrics")
            states = states[count:]
    return Scores(tuple(losses), loss, own.regularization, total_loss, metrics)
