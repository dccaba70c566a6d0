"""Which gradients of a step travel together: consecutive small ones, up to the size of a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.aggregate import Reduction
from compiler.graph.aggregate.pack import fill_buckets
from compiler.graph.ledger import Ledger
from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from tests.support import classifier

SIZE = 100  # bytes of a bucket


def buckets(gradients: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """Return what goes together of gradients given as bytes, type, and the device that wants the sum.

    Type and device may be left out; with the type `rows` it is one of some rows of a table.
    """
    plan = make_plan(classifier(clones=2))
    places = [Placed(tower.device, Reason("test", "default")) for tower in plan.towers]
    with tf.Graph().as_default():
        reductions = []
        for number, (size, *more) in enumerate(gradients):
            kind, device = (*more, *("float32", 0)[len(more) :])
            dtype = tf.as_dtype("float32" if kind == "rows" else kind)
            value: Any = tf.zeros((size // dtype.size,), dtype)
            if kind == "rows":
                value = tf.IndexedSlices(value, tf.zeros((size // dtype.size,), tf.int32))
            reductions.append(
                Reduction(f"g{number}", [value, value], places, [places[device]], Ledger(plan), number)
            )
        return fill_buckets(reductions, SIZE)


@pytest.mark.parametrize(
    ("gradients", "expected"),
    [
        ([(40,), (40,), (40,)], [[0, 1], [2]]),
        ([(40,), (60,), (40,)], [[0, 1], [2]]),  # as full as can be
        ([(40,), (64,), (36,)], [[0], [1, 2]]),  # one that does not fit begins the next
        ([(96,), (4,), (4,)], [[0, 1], [2]]),
        ([(40,), (100,), (40,)], [[1], [0, 2]]),  # as large as a bucket: alone, and it holds nothing up
        ([(40,), (20, "rows"), (40,)], [[1], [0, 2]]),
        ([(40,), (40, "float64"), (40,), (40, "float64")], [[0, 2], [1, 3]]),
        ([(40,), (40, "float32", 1), (40,)], [[1], [0, 2]]),
        ([(40,), (40, "float64"), (64,), (40, "float64"), (4,)], [[0], [1, 3], [2, 4]]),
        ([], []),
    ],
)
def test_buckets_are_filled_in_order(gradients: list[tuple[Any, ...]], expected: list[list[int]]) -> None:
    """Only what has one type and the same places goes together; a bucket leaves with its last gradient."""
    assert buckets(gradients) == expected
