"""Summaries for TensorBoard: made where the `summaries` rule says, which is never a GPU by default."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import MetricTensors
from compiler.graph.variables import GraphVariable


def build_summaries(
    assembly: Assembly,
    total_loss: tf.Tensor,
    rate: tf.Tensor | None,
    metrics: Mapping[str, MetricTensors],
    gradients: Mapping[str, tf.Tensor],
) -> tf.Tensor | None:
    """Return one tensor with all summaries of a step; None where the spec wants none.

    `gradients` are those that the step applies, by variable.
    """
    wanted = assembly.plan.spec.train.summaries
    if wanted == "none":
        return None
    with assembly.ledger.place(assembly.rulebook.summaries(), "summary"), tf.name_scope("summary/"):
        made = [tf.compat.v1.summary.scalar("loss", total_loss)]
        if rate is not None:
            made.append(tf.compat.v1.summary.scalar("learning_rate", rate))
        made += [tf.compat.v1.summary.scalar(name, metric.result) for name, metric in metrics.items()]
        if wanted in {"gradients", "all"}:
            made += _gradient_histograms(gradients)
        if wanted == "all":
            made += _weight_histograms(assembly)
        return tf.compat.v1.summary.merge(made, name="merged")


def _gradient_histograms(gradients: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
    return [tf.compat.v1.summary.histogram(f"gradients/{name}", each) for name, each in gradients.items()]


def _weight_histograms(assembly: Assembly) -> list[tf.Tensor]:
    return [
        tf.compat.v1.summary.histogram(f"weights/{name}", _value(assembly, variable))
        for name, variable in assembly.variables.items()
    ]


def _value(assembly: Assembly, variable: GraphVariable) -> tf.Tensor:
    """Return the value of a variable, read on its own device."""
    with assembly.ledger.place(variable.beside(), "summary"):
        return tf.raw_ops.ReadVariableOp(resource=variable.copies[0].handle, dtype=variable.info.dtype)
