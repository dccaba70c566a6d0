"""Summaries for TensorBoard, on the device that the `summaries` rule gives, which is never a GPU by default.

With gradients there are also the summaries of TensorFlow-Slim's `deploy`, under the same tags:
`clone_0/clone_loss`, `regularization_loss`, and `<variable>/gradient_norm`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import MetricTensors
from compiler.graph.update.step import Updates
from compiler.step.record import Tensor


def build_summaries(
    assembly: Assembly,
    total_loss: tf.Tensor,
    parts: Mapping[str, tf.Tensor],
    rates: Mapping[str, tf.Tensor],
    metrics: Mapping[str, MetricTensors],
    updates: Updates | None,
    weights: Mapping[str, tf.Tensor],
) -> tf.Tensor | None:
    """Return one tensor with all summaries of a step, or None if the spec has none.

    Args:
        assembly: The graph under construction.
        total_loss: The loss of the step with regularization.
        parts: The parts of the loss by their tags.
        rates: The learning rate of each group of weights, of which the first is shown; empty without an
            optimizer.
        metrics: The metrics by name.
        updates: The update of the step, whose gradients are summarized; None without an optimizer.
        weights: What `read_weights` gives.
    """
    wanted = assembly.plan.spec.train.summaries
    if wanted == "none":
        return None
    with assembly.ledger.place(assembly.rulebook.summaries(), "summary"), tf.name_scope("summary/"):
        made = [tf.compat.v1.summary.scalar("loss", total_loss)]
        made += [tf.compat.v1.summary.scalar("learning_rate", each) for each in [*rates.values()][:1]]
        made += [tf.compat.v1.summary.scalar(name, metric.result) for name, metric in metrics.items()]
        if wanted in {"gradients", "all"}:
            made += [tf.compat.v1.summary.scalar(tag, value) for tag, value in parts.items()]
            made += _gradients(assembly, updates.gradients if updates is not None else {})
        if wanted == "all":
            made += [
                tf.compat.v1.summary.histogram(f"weights/{name}", value) for name, value in weights.items()
            ]
        return tf.compat.v1.summary.merge(made, name="merged")


def _gradients(assembly: Assembly, gradients: Mapping[str, Tensor]) -> Iterator[tf.Tensor]:
    """Yield the histogram of each gradient and its norm; they are zero in a step that is skipped."""
    for name, gradient in gradients.items():
        applied = value = assembly.made(gradient)
        if assembly.applied is not None:
            applied = tf.where(assembly.applied, value, tf.zeros_like(value))
        yield tf.compat.v1.summary.histogram(f"gradients/{name}", applied)
        yield tf.compat.v1.summary.scalar(f"{name}/gradient_norm", tf.norm(tf.cast(applied, tf.float32)))


def read_weights(assembly: Assembly) -> dict[str, tf.Tensor]:
    """Return the weights that summaries show, by name. Call it before the update is built, which waits.

    Nothing is read if the spec wants no summaries of weights.
    """
    if assembly.plan.spec.train.summaries != "all":
        return {}
    found = {}
    for name, variable in assembly.variables.items():
        copy = variable.copies[0]
        with assembly.ledger.place(variable.beside(), "summary"), tf.name_scope("summary/"):
            found[name] = tf.raw_ops.ReadVariableOp(resource=copy.handle, dtype=variable.info.dtype)
        assembly.score_reads.setdefault(copy.name, []).append(found[name].op.name)
    return found
