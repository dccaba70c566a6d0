"""What a step tells about itself: loss and metrics, of the towers of one graph or of all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import MetricTensors
from compiler.graph.metrics import combine_metric, metric_of
from compiler.graph.numerics.regularize import regularization_loss


@frozen
class Scores:
    """`data_loss` is the mean over the examples of a step, `total_loss` that with the `regularization`."""

    data_loss: tf.Tensor
    regularization: tf.Tensor
    total_loss: tf.Tensor
    metrics: Mapping[str, MetricTensors]

    @property
    def summands(self) -> tuple[tf.Tensor, ...]:
        """The share of the loss, and the states of the metrics, which may be added up over workers."""
        return (self.data_loss, *(state for each in self.metrics.values() for state in each.states))


def scores_of(assembly: Assembly) -> Scores:
    """Return the scores of the towers of a graph."""
    plan, ledger = assembly.plan, assembly.ledger
    with ledger.place(assembly.rulebook.optimizer(), "metric"), tf.name_scope("total_loss/"):
        parts = [tower.tensor(tower.template.loss) * plan.share(tower.tower) for tower in assembly.towers]
        data_loss = tf.add_n(parts, name="data_loss")
        shares = [plan.share(tower) for tower in plan.towers]
        terms = regularization_loss(assembly.variables.values(), shares, ledger)
        regularization = (
            tf.add_n(terms, name="regularization") if terms else tf.constant(0.0, name="regularization")
        )
        total_loss = tf.add(data_loss, regularization, name="total_loss")
    with ledger.place(assembly.rulebook.optimizer(), "metric"):
        metrics = {node.name: combine_metric(node, assembly.towers) for node in plan.model.metrics}
    return Scores(data_loss, regularization, total_loss, metrics)


def scores_of_all(assembly: Assembly, own: Scores, sums: Sequence[tf.Tensor]) -> Scores:
    """Return the scores of all workers; `sums` are those of the `summands` of each."""
    place, (loss, *states) = assembly.ledger.place(assembly.rulebook.optimizer(), "metric"), sums
    with place:
        data_loss = tf.identity(loss, name="all_workers/data_loss")
        total_loss = tf.add(data_loss, own.regularization, name="all_workers/total_loss")
        metrics = {}
        for node in assembly.plan.model.metrics:
            count = len(own.metrics[node.name].states)
            metrics[node.name] = metric_of(node, states[:count], "all_workers/metrics")
            states = states[count:]
    return Scores(data_loss, own.regularization, total_loss, metrics)
