"""The shapes of weights of examples, by Keras's rules."""

from __future__ import annotations

from collections.abc import Sequence


def weights_fit(values: Sequence[int | None], weights: Sequence[int | None]) -> bool:
    """Whether the values of a loss can be multiplied by weights, each number by its own weight.

    Keras drops or adds an axis of one at the end. It would also spread weights that lack an axis over the
    wrong one if the sizes happen to agree.

    Args:
        values: The shape of the values of the loss without the batch axis; None for an unknown size.
        weights: The shape of the weights, likewise.
    """
    if len(weights) == len(values) + 1 and weights[-1] == 1:
        weights = weights[:-1]
    elif len(values) == len(weights) + 1 and values[-1] == 1:
        values = values[:-1]
    if len(values) != len(weights):
        return False
    pairs = zip(values, weights, strict=True)
    return all(weight in (1, value) or None in (weight, value) for value, weight in pairs)
