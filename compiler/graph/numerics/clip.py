"""Clipping of gradients after they were summed over all clones and regularisation was added."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.assembly import Assembly

if TYPE_CHECKING:
    from compiler.graph.update.gradients import SummedGradient

Gradient = Any  # a tensor, or tf.IndexedSlices with distinct indices


def clip_gradients(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Clip as `update.clip` says: all by their norm together, each by its own norm, or every element.

    Where a norm is not finite, what it scales comes out as NaN, so that the fault stays in sight.
    """
    clip = assembly.plan.update.clip
    if clip is None:
        return list(gradients)
    value = clip.args[0] if clip.args else clip.kwargs["x"]
    assert isinstance(value, int | float)
    limit = float(value)
    if clip.name == "value":
        return [_each(assembly, one, lambda each: _cut(each, limit)) for one in gradients]
    if clip.name == "norm":
        return [
            _each(assembly, one, lambda each: _scale(each, _factor(_norm(each), limit))) for one in gradients
        ]
    squares = [_square_sum(assembly, one) for one in gradients]
    with assembly.ledger.place(assembly.step_place, "update"), tf.name_scope(f"{assembly.scope}/clip/"):
        factor = _factor(tf.sqrt(tf.add_n(squares), name="global_norm"), limit)
    return [_each(assembly, one, lambda each: _scale(each, factor)) for one in gradients]


def _each(
    assembly: Assembly, gradient: SummedGradient, change: Callable[[Gradient], Gradient]
) -> SummedGradient:
    """Change the gradient of every copy of a variable, beside it."""
    copies = []
    for copy, value in enumerate(gradient.copies):
        with _beside(assembly, gradient, copy):
            copies.append(change(value))
    return evolve(gradient, copies=tuple(copies))


def _square_sum(assembly: Assembly, gradient: SummedGradient) -> tf.Tensor:
    """Return the sum of squares of a gradient, which is the same for every copy of its variable."""
    with _beside(assembly, gradient, 0):
        return _squares(gradient.copies[0])


@contextmanager
def _beside(assembly: Assembly, gradient: SummedGradient, copy: int) -> Iterator[None]:
    variable = gradient.variable
    place = assembly.ledger.place(variable.beside(copy), "update")
    with place, tf.name_scope(f"{assembly.scope}/clip/{variable.name}/"):
        yield


def _squares(gradient: Gradient) -> tf.Tensor:
    values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
    return tf.reduce_sum(tf.square(tf.cast(values, tf.float32)))


def _norm(gradient: Gradient) -> tf.Tensor:
    return tf.sqrt(_squares(gradient))


def _factor(norm: tf.Tensor, limit: float) -> tf.Tensor:
    """Return what brings a norm down to `limit`: one for a smaller norm, NaN for one that is not finite."""
    return limit / tf.maximum(norm, limit) + (norm - norm)


def _scale(gradient: Gradient, factor: tf.Tensor) -> Gradient:
    return _map(gradient, lambda values: values * tf.cast(factor, values.dtype))


def _cut(gradient: Gradient, limit: float) -> Gradient:
    return _map(gradient, lambda values: tf.clip_by_value(values, -limit, limit))


def _map(gradient: Gradient, change: Callable[[tf.Tensor], tf.Tensor]) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(change(gradient.values), gradient.indices)
    return change(gradient)
