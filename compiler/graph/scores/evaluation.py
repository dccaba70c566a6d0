"""The evaluation tower: the model without training, for batches of any size, on its own device."""

from __future__ import annotations

import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import Evaluation
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.regularize import evaluated_regularization
from compiler.graph.gradients.weighting import data_loss, tower_losses
from compiler.graph.inputs.iterators import open_pipe
from compiler.graph.scores.metrics import combine_metric
from compiler.graph.scores.scores import Scores
from compiler.graph.stamp.stamp import Bindings, stamp
from compiler.graph.tower.template import Template
from compiler.plan import Tower
from compiler.step.record import Tensor
from compiler.step.writer import Spot

SCOPE = "evaluation"


def build_evaluation(assembly: Assembly, template: Template, training: Scores) -> Evaluation:
    """Stamp the evaluation tower, which reads the averaged weights if there are any.

    Args:
        assembly: The graph under construction.
        template: The tower for evaluation.
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
    if all(each.evaluated.variable is each.copies[0] for each in variables):
        return training.regularization
    terms = evaluated_regularization(evolve(at, scope=f"{SCOPE}/regularization"), variables)
    return at.sum("regularization", terms) if terms else training.regularization
