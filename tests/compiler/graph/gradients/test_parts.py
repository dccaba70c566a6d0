"""The gradient of a loss by a variable, made of those of the loss's parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import tensorflow as tf

from compiler.graph.fragments import recorded
from compiler.graph.gradients.summed import SummedGradient, join_parts
from tests.compiler.step.sums.test_sums import Bench


def variable(name: str, bench: Bench) -> Any:
    """Return a variable with a copy on every device."""
    return SimpleNamespace(name=name, beside=lambda copy: bench.homes[copy])


def rows(ids: list[int], value: float) -> Any:
    """Return rows of a table with four rows of one number."""
    return recorded(tf.IndexedSlices(tf.fill((len(ids), 1), value), tf.constant(ids)))


def test_parts_are_divided_and_added_beside_each_copy() -> None:
    """Tensors and rows, each times the factor of its part; one part without a factor stays as it is."""
    bench = Bench(2)
    assembly: Any = SimpleNamespace(ledger=bench.ledger, scope="update")
    with bench:
        ones = tf.ones((4, 1))
        dense, twice, half, three_halves = map(recorded, (ones, 2 * ones, tf.constant(0.5), tf.constant(1.5)))
        weight, alone, table, mixed, other = (variable(name, bench) for name in "watmo")
        parts = [
            SummedGradient(weight, (dense, twice), 0),
            SummedGradient(alone, (dense,), 1),
            SummedGradient(weight, (dense, dense), 2),
            SummedGradient(table, (rows([0, 2], 1.0),), 0),
            SummedGradient(table, (rows([2, 3], 1.0),), 1),
            SummedGradient(mixed, (rows([1], 1.0),), 0),
            SummedGradient(mixed, (dense,), 1),
            SummedGradient(mixed, (rows([3], 1.0),), 2),
            SummedGradient(other, (rows([3], 1.0),), 2),
        ]
        found = {each.variable.name: each for each in join_parts(assembly, parts, [half, None, three_halves])}
        assert [(name, each.part) for name, each in found.items()] == [
            *zip("watmo", (0, 1, 0, 0, 0), strict=True)
        ]
        assert found["a"] is parts[1]
        places = [bench.ledger.entries[each.op].device.ref for each in found["w"].copies]
        assert places == ["cpu[0]", "cpu[1]"]
    values = bench.run({name: each.copies for name, each in found.items()})
    np.testing.assert_array_equal(values["w"][0], np.full((4, 1), 2.0))
    np.testing.assert_array_equal(values["w"][1], np.full((4, 1), 2.5))
    assert dict(zip(values["t"][0].indices, values["t"][0].values[:, 0], strict=True)) == {
        0: 0.5,
        2: 1.5,
        3: 1.0,
    }
    assert values["m"][0].ravel().tolist() == [1.0, 1.5, 1.0, 2.5]
    assert (values["o"][0].indices.tolist(), values["o"][0].values.tolist()) == ([3], [[1.5]])
