"""Small weights, which come with rows of a table."""

from __future__ import annotations

import pytest

from compiler.graph.stamp.sources import Rider
from compiler.reasons import Placed, Reason
from compiler.step.record import Tensor
from compiler.topology import Device


@pytest.mark.parametrize(
    ("shape", "dtype", "small"),
    [
        ((), "float32", True),
        ((128, 128), "float32", True),
        ((16385,), "float32", False),
        ((256, 128), "float16", True),
        ((3, 10923), "float16", False),
    ],
)
def test_a_weight_of_64_kib_is_small(shape: tuple[int, ...], dtype: str, *, small: bool) -> None:
    """A larger one is sent by itself, whatever its shape and its type are."""
    rider = Rider(
        "w", Tensor("w/read", dtype, shape), "w/sent", Placed(Device("cpu", 0), Reason("w", "default"))
    )
    assert rider.is_small == small
