"""Which constraints on the pieces of a weight are those on the whole."""

from __future__ import annotations

from typing import Any

import keras
import pytest

from compiler.graph.optimizers.divisible import _keeps_pieces
from compiler.shards import cut


@pytest.mark.parametrize(
    ("constraint", "axis", "kept"),
    [
        (keras.constraints.NonNeg(), 0, True),
        (keras.constraints.UnitNorm(axis=0), 0, False),
        (keras.constraints.UnitNorm(axis=0), 1, True),
        (keras.constraints.MaxNorm(2.0, axis=-1), 2, False),  # counted from the last axis
        (keras.constraints.MaxNorm(2.0, axis=-1), 0, True),
        (keras.constraints.MinMaxNorm(0.0, 1.0, axis=[0, 1]), 1, False),
        (keras.constraints.MinMaxNorm(0.0, 1.0, axis=(0, 1)), 2, True),
        (keras.constraints.MinMaxNorm(0.0, 1.0, axis=[0, -1]), 2, False),
        (lambda weight: weight, 0, False),  # nobody knows what code of the user's does
    ],
)
def test_a_norm_is_kept_unless_its_axis_is_cut(constraint: Any, axis: int, *, kept: bool) -> None:
    """What looks at single elements is kept however a weight is cut."""
    first = cut("w", (4, 4, 4), 0, 2, axis=axis)[0]
    assert _keeps_pieces(constraint, first) == kept
