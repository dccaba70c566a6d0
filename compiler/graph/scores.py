"""The loss and metrics of a step, and the evaluation tower, which scores the model on batches of any size.

The states of the metrics of all towers are added up, and Keras computes the result: the state of a Keras
metric starts from zero, and figures are only ever added to it, so the contributions of towers, and of
batches, may be summed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import Evaluation, MetricTensors
from compiler.graph.feeding import open_pipe
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.regularize import evaluated_regularization, regularization_loss
from compiler.graph.gradients.weighting import LossSum, data_loss, loss_sums, tower_losses
from compiler.graph.stamp.stamp import Bindings, StampedTower, stamp
from compiler.graph.tower.network.keras_scope import stateless
from compiler.graph.tower.refusals import refusal
from compiler.graph.tower.template import Template
from compiler.model.graph import ObjectiveNode
from compiler.plan import Tower
from compiler.step.record import Tensor
from compiler.step.writer import Spot


@frozen
class Scores:
    """The loss and metrics of a step."""

    losses: tuple[LossSum, ...]
    data_loss: Tensor
    regularization: Tensor
    total_loss: Tensor  # the sum of both
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
    terms = regularization_loss(at, assembly, shares)
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


SCOPE = "evaluation"


def build_evaluation(assembly: Assembly, template: Template, training: Scores) -> Evaluation:
    """Stamp the evaluation tower, which reads the averaged weights if there are any.

    Args:
        training: The scores of a step, whose regularization is used if the same weights are evaluated.
    """
    plan, ledger = assembly.plan, assembly.ledger
    placed = assembly.rulebook.evaluation(plan.towers[0].device)
    pipe_placed = assembly.rulebook.inputs(plan.towers[0])
    pipe = open_pipe(plan.model.inputs, None, pipe_placed, ledger, f"{SCOPE}/input")
    first = plan.towers[0]  # without a rule, a model that is spread over a group is evaluated on that group
    devices = first.devices if placed.reason.kind == "default" else (placed.device,)
    tower = Tower(index=0, scope=SCOPE, devices=devices, batch=0, reason=placed.reason)
    bindings = Bindings(
        tower=tower,
        weights={name: assembly.evaluated(name) for name in template.weights},
        inputs=pipe.batch,
        inverse_share=float(plan.step_batch),
        role="evaluation",
    )
    (stamped,) = stamp([(template, bindings)], assembly.rulebook, ledger)
    at = Spot(ledger.writer("evaluation"), SCOPE, placed)
    count = write_traced(at, _count, next(iter(pipe.batch.values())))
    of_metrics = evolve(at, scope="metrics")
    metrics = {node.name: combine_metric(of_metrics, node, [stamped]) for node in plan.model.metrics}
    losses = tuple(tower_losses(stamped))
    loss = data_loss(at, losses, "loss")
    regularization = _regularization(assembly, at, training)
    outputs = plan.model.returned([stamped.record(each) for each in template.outputs])
    return Evaluation(pipe, outputs, loss, losses, regularization, count, metrics)


def _count(batch: tf.Tensor) -> tf.Tensor:
    return tf.shape(batch, out_type=tf.int64, name="count")[0]


def _regularization(assembly: Assembly, at: Spot, training: Scores) -> Tensor:
    """Return the penalty of the weights that are evaluated."""
    variables = assembly.variables.values()
    if all(each.evaluates_itself and assembly.given_value(each) is None for each in variables):
        return training.regularization
    terms = evaluated_regularization(evolve(at, scope=f"{SCOPE}/regularization"), variables)
    return at.sum("regularization", terms) if terms else training.regularization


def combine_metric(at: Spot, node: ObjectiveNode, towers: Sequence[StampedTower]) -> MetricTensors:
    """Write a metric over the batches of all `towers`."""
    at = evolve(at, scope=f"{at.scope}/{node.name}")
    parts = [[tower.record(name) for name in tower.template.metric_states[node.name]] for tower in towers]
    kind = "AddN" if len(towers) > 1 else "Identity"
    states = [at.sum(kind, each) for each in zip(*parts, strict=True)]
    return metric_of(at, node, towers[0].template.metrics[node.name], states)


def metric_of(at: Spot, node: ObjectiveNode, metric: Any, states: Sequence[Tensor]) -> MetricTensors:
    """Write the metric for states that have been added up."""

    def result(states: Sequence[tf.Tensor]) -> tf.Tensor:
        with stateless(), refusal(node.label, [], node.span):
            found = metric.stateless_result(states)
            by_variable = {id(each): state for each, state in zip(metric.variables, states, strict=True)}
            return tf.identity(by_variable.get(id(found), found), name="result")  # it may be a variable

    return MetricTensors(tuple(states), write_traced(at, result, list(states), owner=metric))
