"""Which gradients of a step travel together: consecutive small ones, up to the size of a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from compiler.step.record import ITEM_BYTES, Rows, Tensor, Value
from compiler.step.sums import Reduction, make_aggregation
from compiler.step.sums.pack import fill_buckets, reduce_packed
from compiler.step.writer import StepWriter
from dsl import ir
from tests.compiler.step.sums.test_sums import Bench
from tests.support import classifier

SIZE = 100  # bytes of a bucket


def buckets(gradients: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    """Return what goes together of gradients given as bytes, type, and the device that wants the sum.

    Type and device may be left out; with the type `rows` it is one of some rows of a table.
    """
    plan = make_plan(classifier(clones=2))
    places = [Placed(tower.device, Reason("test", "default")) for tower in plan.towers]
    reductions = []
    for number, (size, *more) in enumerate(gradients):
        kind, device = (*more, *("float32", 0)[len(more) :])
        dtype = "float32" if kind == "rows" else kind
        value: Value = Tensor(f"made_{number}", dtype, (size // ITEM_BYTES[dtype],))
        if kind == "rows":
            value = Rows(value, Tensor("numbers", "int32", value.shape))
        reductions.append(
            Reduction(f"g{number}", [value] * 2, places, [places[device]], StepWriter("aggregate"), number)
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


@pytest.mark.parametrize("everywhere", [False, True], ids=["one-place", "every-clone"])
@pytest.mark.parametrize("algorithm", ["add_n", "ring"])
def test_sums_come_back_one_by_one(algorithm: str, *, everywhere: bool) -> None:
    """Each with its shape and place, in the order of the gradients, whatever travelled together."""
    bench, generator = Bench(3), np.random.default_rng(1)
    shapes = [(3,), (40, 2), (2, 2), (), (5, 1)]  # the second is as large as a bucket
    arrays = [[generator.standard_normal(shape).astype(np.float32) for _ in range(3)] for shape in shapes]
    places = bench.homes if everywhere else bench.homes[-1:]
    with bench:
        reductions = [
            bench.reduction(f"g{at}", [tf.constant(each) for each in own], places, at)
            for at, own in enumerate(arrays)
        ]
        sums = [*reduce_packed(reductions, make_aggregation(ir.Call(algorithm)), SIZE)]
    for found, own in zip(bench.run(sums), arrays, strict=True):
        assert len(found) == len(places)
        for each in found:
            np.testing.assert_allclose(each, np.sum(own, axis=0), rtol=1e-6, atol=1e-6)
    entries = bench.ledger.entries
    assert {entries["aggregate/bucket_1/" + name].device.ref for name in ("pack_0/packed",)} == {"cpu[0]"}
    for at, place in enumerate(places):
        assert entries[f"aggregate/bucket_1/unpack_{at}/Reshape"].device == place.device
