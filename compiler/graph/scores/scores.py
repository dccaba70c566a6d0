"""The loss and metrics of a step, of the towers of one graph or of all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import MetricTensors
from compiler.graph.gradients.regularize import regularization_loss
from compiler.graph.gradients.weighting import LossSum, data_loss, loss_sums
from compiler.graph.scores.metrics import combine_metric, metric_of
from compiler.step.record import Tensor
from compiler.step.writer import Spot


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
    data_loss: Tensor
    regularization: Tensor
    total_loss: Tensor
    metrics: Mapping[str, MetricTensors]

    @property
    def states(self) -> tuple[Tensor, ...]:
        """The states of the metrics, which may be added up over workers, like the parts of the loss."""
        return tuple(state for each in self.metrics.values() for state in each.states)


def scores_of(assembly: Assembly) -> Scores:
    """Return the scores of the towers of a graph."""
    plan, place = assembly.plan, assembly.rulebook.optimizer()
    at = Spot(assembly.ledger.writer("metric"), "total_loss", place)
    losses = tuple(loss_sums(at, assembly.towers, lambda each: plan.share(each.tower)))
    loss = data_loss(at, losses, "data_loss")
    shares = [plan.share(tower) for tower in plan.towers]
    terms = regularization_loss(at, assembly.variables.values(), shares, assembly.score_reads)
    if terms:
        regularization = at.sum("regularization", terms)
    else:
        regularization = at.writer.constant(at.name("regularization"), 0.0, "float32", place)
    (total_loss,) = at.op("AddV2", "total_loss", loss, regularization)
    at = Spot(at.writer, "metrics", place)
    metrics = {node.name: combine_metric(at, node, assembly.towers) for node in plan.model.metrics}
    return Scores(losses, loss, regularization, total_loss, metrics)


def scores_of_all(
    assembly: Assembly, own: Scores, losses: Sequence[LossSum], states: Sequence[Tensor]
) -> Scores:
    """Return the scores of all workers."""
    at = Spot(assembly.ledger.writer("metric"), "all_workers", assembly.rulebook.optimizer())
    (loss,) = at.op("Identity", "data_loss", data_loss(at, losses, "loss"))
    (total_loss,) = at.op("AddV2", "total_loss", loss, own.regularization)
    metrics, kept = {}, assembly.towers[0].template.metrics
    for node in assembly.plan.model.metrics:
        count = len(own.metrics[node.name].states)
        of_metric = evolve(at, scope=f"all_workers/metrics/{node.name}")
        metrics[node.name] = metric_of(of_metric, node, kept[node.name], states[:count])
        states = states[count:]
    return Scores(tuple(losses), loss, own.regularization, total_loss, metrics)
