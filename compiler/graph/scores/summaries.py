"""Summaries for TensorBoard: made where the `summaries` rule says, which is never a GPU by default.

With gradients comes what the tutorials and slim's `deploy` show, under the same tags: `clone_0/clone_loss`,
`regularization_loss`, and `<variable>/gradient_norm`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import MetricTensors
from compiler.graph.update.step import Updates
from compiler.graph.variables.variables import GraphVariable


def build_summaries(
    assembly: Assembly,
    total_loss: tf.Tensor,
    parts: Mapping[str, tf.Tensor],
    rate: tf.Tensor | None,
    metrics: Mapping[str, MetricTensors],
    updates: Updates | None,
) -> tf.Tensor | None:
    """Return one tensor with all summaries of a step; None where the spec wants none.

    `parts` are those of the loss, by their tags. Gradients are those that the step of `updates` applies.
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
            made += [tf.compat.v1.summary.scalar(tag, value) for tag, value in parts.items()]
            made += _gradients(assembly, updates.gradients if updates is not None else {})
        if wanted == "all":
            made += _weight_histograms(assembly)
        return tf.compat.v1.summary.merge(made, name="merged")


def _gradients(assembly: Assembly, gradients: Mapping[str, tf.Tensor]) -> Iterator[tf.Tensor]:
    """Yield the histogram of each gradient and its norm; zeros in a step that is skipped."""
    for name, gradient in gradients.items():
        applied = gradient
        if assembly.applied is not None:
            applied = tf.where(assembly.applied, gradient, tf.zeros_like(gradient))
        yield tf.compat.v1.summary.histogram(f"gradients/{name}", applied)
        yield tf.compat.v1.summary.scalar(f"{name}/gradient_norm", tf.norm(tf.cast(applied, tf.float32)))


def _weight_histograms(assembly: Assembly) -> list[tf.Tensor]:
    return [
        tf.compat.v1.summary.histogram(f"weights/{name}", _value(assembly, variable))
        for name, variable in assembly.variables.items()
    ]


def _value(assembly: Assembly, variable: GraphVariable) -> tf.Tensor:
    """Return the value of a variable, read on its own device."""
    with assembly.ledger.place(variable.beside(), "summary"):
        return tf.raw_ops.ReadVariableOp(resource=variable.copies[0].handle, dtype=variable.info.dtype)
