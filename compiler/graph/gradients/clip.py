"""Clipping of gradients, after they have been summed over all clones and regularization has been added."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.copies import Gradient, beside, change_copies, map_values, times, values_of
from compiler.graph.gradients.summed import SummedGradient

SCOPE = "clip"


def clip_gradients(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Return the gradients clipped as `update.clip` says: by their global norm, by own norms, or by element.

    If a norm is not finite, the gradients that it scales become NaN, so that the fault remains visible.

    Args:
        assembly: The graph under construction, whose plan has `update.clip`.
        gradients: The summed gradients of all variables.
    """
    clip = assembly.plan.update.clip
    if clip is None:
        return list(gradients)
    value = clip.args[0] if clip.args else clip.kwargs["x"]
    assert isinstance(value, int | float)
    if clip.name == "global_norm":
        return _by_global_norm(assembly, gradients, float(value))
    if clip.name == "value":
        return [
            change_copies(assembly, each, SCOPE, lambda copy: _clip_value(copy, float(value)))
            for each in gradients
        ]
    families: dict[str, list[SummedGradient]] = {}
    for each in gradients:
        families.setdefault(each.variable.weight, []).append(each)
    return [each for family in families.values() for each in _by_own_norm(assembly, family, float(value))]


def _by_own_norm(assembly: Assembly, pieces: Sequence[SummedGradient], limit: float) -> list[SummedGradient]:
    """Scale the gradients of all pieces of a weight by the same factor."""
    if len(pieces) == 1:
        return [change_copies(assembly, pieces[0], SCOPE, lambda copy: _clip_norm(copy, limit))]
    squares = []
    for each in pieces:
        with beside(assembly, each, SCOPE):
            squares.append(_squares(assembly.made(each.copies[0])))
    with beside(assembly, pieces[0], SCOPE):
        factor = _factor(tf.sqrt(tf.add_n(squares, name="norm")), limit)
    return [change_copies(assembly, each, SCOPE, lambda copy: times(copy, factor)) for each in pieces]


def _by_global_norm(
    assembly: Assembly, gradients: Sequence[SummedGradient], limit: float
) -> list[SummedGradient]:
    """Scale all gradients by the same factor; all copies of a variable add the same to the norm."""
    squares = []
    for each in gradients:
        with beside(assembly, each, SCOPE):
            squares.append(_squares(assembly.made(each.copies[0])))
    with assembly.ledger.place(assembly.step_place, "update"), tf.name_scope(f"{assembly.scope}/{SCOPE}/"):
        factor = _factor(tf.sqrt(tf.add_n(squares), name="global_norm"), limit)
    return [change_copies(assembly, each, SCOPE, lambda copy: times(copy, factor)) for each in gradients]


def _clip_norm(gradient: Gradient, limit: float) -> Gradient:
    return times(gradient, _factor(tf.sqrt(_squares(gradient)), limit))


def _clip_value(gradient: Gradient, limit: float) -> Gradient:
    return map_values(gradient, lambda values: tf.clip_by_value(values, -limit, limit))


def _squares(gradient: Gradient) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cast(values_of(gradient), tf.float32)))


def _factor(norm: tf.Tensor, limit: float) -> tf.Tensor:
    """Return the factor that brings a norm down to `limit`: one for a smaller norm, NaN if not finite."""
    return limit / tf.maximum(norm, limit) + (norm - norm)
