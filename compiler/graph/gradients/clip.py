"""Clipping of gradients, after they have been summed over all clones and regularization has been added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from compiler.figures import gathered
from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.summed import SummedGradient, beside, change_copies
from compiler.step.record import Tensor
from compiler.step.values import values_of
from compiler.step.writer import Spot

SCOPE = "clip"


def clip_gradients(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
    """Return the gradients clipped as `update.clip` says: by their global norm, by own norms, or by element.

    If a norm is not finite, the gradients that it scales become NaN, so that the fault remains visible.
    """
    clip = assembly.plan.update.clip
    if clip is None:
        return list(gradients)
    value = clip.args[0] if clip.args else clip.kwargs["x"]
    assert isinstance(value, int | float)
    if clip.name == "global_norm":
        return _by_global_norm(assembly, gradients, float(value))
    if clip.name == "value":
        return _changed(assembly, gradients, lambda at, own: write_traced(at, _cut, own, limit=float(value)))
    families = _by_weight(gradients)
    whole = None if assembly.squares_of_all is None else _squares_by_weight(assembly, gradients)
    return [
        each
        for weight, family in families.items()
        for each in _by_own_norm(assembly, family, float(value), None if whole is None else [whole[weight]])
    ]


def _by_weight(gradients: Sequence[SummedGradient]) -> dict[str, list[SummedGradient]]:
    return gathered((each.variable.weight, each) for each in gradients)


def _by_own_norm(
    assembly: Assembly,
    pieces: Sequence[SummedGradient],
    limit: float,
    squares: Sequence[Tensor] | None = None,
) -> list[SummedGradient]:
    """Scale the gradients of all pieces of a weight by the same factor.

    Args:
        squares: The sums of the squares of the weight's gradient, if more than these pieces count.
    """
    if len(pieces) == 1 and squares is None:

        def scaled(at: Spot, values: Tensor) -> Tensor:
            return at.times(values, write_traced(at, _factor_of_one, values, limit=limit))

        return _changed(assembly, pieces, scaled)
    squares = squares or _all_squares(assembly, pieces)
    at = beside(assembly, pieces[0], SCOPE)
    factor = write_traced(at, _factor, squares, limit=limit, sum_name="norm")
    return _changed(assembly, pieces, lambda at, values: at.times(values, factor))


def _by_global_norm(
    assembly: Assembly, gradients: Sequence[SummedGradient], limit: float
) -> list[SummedGradient]:
    """Scale all gradients by the same factor; all copies of a variable add the same to the norm."""
    if assembly.squares_of_all is None:
        squares = _all_squares(assembly, gradients)
    else:
        squares = [*_squares_by_weight(assembly, gradients).values()]
    at = Spot(assembly.ledger.writer("update"), f"{assembly.scope}/{SCOPE}", assembly.step_place)
    factor = write_traced(at, _factor, squares, limit=limit, name="global_norm")
    return _changed(assembly, gradients, lambda at, values: at.times(values, factor))


def _changed(
    assembly: Assembly, gradients: Sequence[SummedGradient], change: Callable[[Spot, Tensor], Tensor]
) -> list[SummedGradient]:
    return [change_copies(assembly, each, SCOPE, change) for each in gradients]


def _squares_by_weight(assembly: Assembly, gradients: Sequence[SummedGradient]) -> Mapping[str, Tensor]:
    """Return the sums of the squares of the gradients of weights of which other workers have parts, too."""
    assert assembly.squares_of_all is not None
    own: dict[str, Tensor] = {}
    for weight, family in _by_weight(gradients).items():
        squares, at = _all_squares(assembly, family), beside(assembly, family[0], SCOPE)
        own[weight] = squares[0] if len(squares) == 1 else at.sum("own_squares", squares)
    return assembly.squares_of_all(own)


def _all_squares(assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[Tensor]:
    """Return the sum of the squares of each gradient, made beside its variable."""
    return [
        write_traced(beside(assembly, each, SCOPE), _squares, values_of(each.copies[0])) for each in gradients
    ]


def _cut(values: tf.Tensor, limit: float) -> tf.Tensor:
    return tf.clip_by_value(values, -limit, limit)


def _squares(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cast(values, tf.float32)))


def _factor_of_one(values: tf.Tensor, limit: float) -> tf.Tensor:
    return _limited(tf.sqrt(_squares(values)), limit)


def _factor(
    squares: Sequence[tf.Tensor], limit: float, name: str | None = None, sum_name: str | None = None
) -> tf.Tensor:
    return _limited(tf.sqrt(tf.add_n(squares, name=sum_name), name=name), limit)


def _limited(norm: tf.Tensor, limit: float) -> tf.Tensor:
    """Return the factor that brings a norm down to `limit`: one for a smaller norm, NaN if not finite."""
    return limit / tf.maximum(norm, limit) + (norm - norm)
