"""Summaries for TensorBoard, on the device that the `summaries` rule gives, which is never a GPU by default.

With gradients there are also the summaries of TensorFlow-Slim's `deploy`, under the same tags:
`clone_0/clone_loss`, `regularization_loss`, and `<variable>/gradient_norm`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.compiled import MetricTensors
from compiler.graph.fragments import write_traced
from compiler.graph.update.step import Updates
from compiler.step.record import Tensor
from compiler.step.writer import Spot


def build_summaries(
    assembly: Assembly,
    total_loss: Tensor,
    metrics: Mapping[str, MetricTensors],
    parts: Mapping[str, Tensor],
    updates: Updates,
    weights: Mapping[str, Tensor],
) -> Tensor | None:
    """Return one tensor with all summaries of a step, or None if the spec has none."""
    wanted = assembly.plan.spec.train.summaries
    if wanted == "none":
        return None

    def summarized(
        scalars: Mapping[str, tf.Tensor],
        gradients: Mapping[str, tf.Tensor],
        applied: tf.Tensor | None,
        weights: Mapping[str, tf.Tensor],
    ) -> tf.Tensor:
        with tf.name_scope("summary/"):  # tags are names with their scopes
            made = [*_scalars(scalars)]
            made += _gradients(gradients, applied)
            made += [
                tf.compat.v1.summary.histogram(f"weights/{name}", each) for name, each in weights.items()
            ]
            return tf.compat.v1.summary.merge(made, name="merged")

    scalars = {"loss": total_loss}
    for rate in [*updates.learning_rates.values()][:1]:
        scalars["learning_rate"] = rate
    scalars |= {name: metric.result for name, metric in metrics.items()}
    more = wanted in {"gradients", "all"}
    if more:
        scalars |= parts
    gradients = updates.gradients if more else {}
    at = Spot(assembly.ledger.writer("summary"), "", assembly.rulebook.summaries())
    given = (scalars, gradients, assembly.applied, weights if wanted == "all" else {})
    return write_traced(at, summarized, *given)


def _scalars(values: Mapping[str, tf.Tensor]) -> Iterator[tf.Tensor]:
    """Yield the summary of each value; a metric with several has one for each, such as `summary/f1/0`."""
    for tag, value in values.items():
        if value.shape.rank:
            for at, each in enumerate(tf.unstack(tf.reshape(value, [value.shape.num_elements()]))):
                yield tf.compat.v1.summary.scalar(f"{tag}/{at}", each)
        else:
            yield tf.compat.v1.summary.scalar(tag, value)


def _gradients(gradients: Mapping[str, tf.Tensor], applied: tf.Tensor | None) -> Iterator[tf.Tensor]:
    """Yield the histogram of each gradient and its norm; they are zero in a step that is skipped."""
    for name, gradient in gradients.items():
        value = gradient if applied is None else tf.where(applied, gradient, tf.zeros_like(gradient))
        yield tf.compat.v1.summary.histogram(f"gradients/{name}", value)
        yield tf.compat.v1.summary.scalar(f"{name}/gradient_norm", tf.norm(tf.cast(value, tf.float32)))


def read_weights(assembly: Assembly) -> dict[str, Tensor]:
    """Return the weights that summaries show, by name. Call it before the update is built, which waits.

    Nothing is read if the spec wants no summaries of weights.
    """
    if assembly.plan.spec.train.summaries != "all":
        return {}
    found = {}
    for name, variable in assembly.variables.items():
        at = Spot(assembly.ledger.writer("summary"), "summary", variable.beside())
        found[name] = at.read(variable.copies[0].tensor)
        assembly.score_reads.setdefault(variable.copies[0].name, []).append(found[name].op)
    return found
