"""Weights of examples fit the values of a loss if each number has its own weight."""

from __future__ import annotations

import pytest

from compiler.model.shapes import weights_fit


@pytest.mark.parametrize(
    ("values", "weights", "fit"),
    [
        ((), (), True),
        ((), (1,), True),
        ((1,), (), True),
        ((), (2,), False),
        ((2,), (), False),
        ((5,), (5,), True),
        ((5,), (1,), True),
        ((1,), (5,), False),
        ((5,), (6,), False),
        ((5,), (5, 1), True),
        ((5, 1), (5,), True),
        ((5,), (5, 2), False),
        ((5, 2), (5,), False),
        ((5, 4), (1, 4), True),
        ((5, 4), (4,), False),
        ((5, 4), (5, 1), True),
        ((5, 4, 1), (5,), False),
        ((None,), (7,), True),
        ((7,), (None,), True),
        ((None, 3), (7, 2), False),
    ],
)
def test_shapes_of_weights(
    values: tuple[int | None, ...], weights: tuple[int | None, ...], *, fit: bool
) -> None:
    """An axis of one at the end comes and goes; a size that is not fixed can be any."""
    assert weights_fit(values, weights) == fit
