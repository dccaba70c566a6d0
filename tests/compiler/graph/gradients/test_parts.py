"""Gradients and losses in parts: of the losses of a model, of its towers, and of weights in pieces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.fragments import recorded, write_traced
from compiler.graph.gradients.collect import cut_rows
from compiler.graph.gradients.summed import SummedGradient, join_parts
from compiler.graph.gradients.weighting import LossSum, data_loss, inverse_weights, loss_sums, tower_loss
from compiler.graph.stamp.pieces import DealtRows
from compiler.shards import Shard, cut
from compiler.step.values import cut_value, merge_rows
from compiler.step.writer import Spot
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


WHOLE = np.arange(20, dtype=np.float32).reshape(5, 4)
ROWS, IDS = np.array([[1, 2], [10, 20], [100, 200], [1000, 2000]], np.float32), [4, 1, 4, 2]
LINE = (Shard("w", 0, 2, 0, 0, 11, (5, 4), flat=True), Shard("w", 1, 2, 0, 11, 9, (5, 4), flat=True))


def pieces_of(bench: Bench, rows: Any, shards: Any, dealt: Any = None) -> Any:
    """Return the pieces of rows; if it is not known how they were dealt, equal ones are summed before."""
    value = recorded(rows)
    if dealt is None:
        value = merge_rows(bench.writer, "merged", [value], bench.homes[0])
    at = Spot(bench.writer, "cut", bench.homes[0])
    return write_traced(at, cut_rows, value, dealt, shards=shards)


@pytest.mark.parametrize(
    ("shards", "expected"),
    [
        (cut("w", (5, 4), 0, 2), [WHOLE[:3], WHOLE[3:]]),
        (cut("w", (5, 4), 0, 3, axis=1), [WHOLE[:, :2], WHOLE[:, 2:3], WHOLE[:, 3:]]),
        (LINE, [WHOLE.ravel()[:11], WHOLE.ravel()[11:]]),
    ],
    ids=["rows", "columns", "line"],
)
def test_a_tensor_is_split_where_the_weight_is(shards: tuple[Shard, ...], expected: list[Any]) -> None:
    """Along the axis of the pieces, or as a line of elements."""
    with Bench(1) as bench:
        value = recorded(tf.constant(WHOLE))
        pieces = [*cut_value(bench.writer, "cut", value, shards, bench.homes[0])]
    found = bench.run(pieces)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


def test_rows_go_to_the_pieces_that_have_them() -> None:
    """Equal rows are added up first, and each has its number within the piece."""
    with Bench(1) as bench:
        value = tf.IndexedSlices(tf.constant(ROWS), tf.constant(IDS))
        made = pieces_of(bench, value, cut("w", (6, 2), 0, 3))
    first, second, third = bench.run(made)
    assert (first.indices.tolist(), first.values.tolist()) == ([1], [[10, 20]])
    assert (second.indices.tolist(), second.values.tolist()) == ([0], [[1000, 2000]])
    assert (third.indices.tolist(), third.values.tolist()) == ([0], [[101, 202]])


@pytest.mark.parametrize("known", [False, True], ids=["found", "dealt"])
def test_every_piece_has_a_part_of_each_row_of_a_table_cut_in_columns(*, known: bool) -> None:
    """The numbers of the rows are the same for all pieces, and those of the look-up if these are known."""
    with Bench(1) as bench:
        value = tf.IndexedSlices(tf.constant(ROWS), tf.constant(IDS))
        distinct, places = tf.unique(value.indices)
        distinct, places = recorded(distinct), recorded(places)
        dealt = DealtRows(distinct, places, (distinct, distinct)) if known else None
        made = pieces_of(bench, value, cut("w", (6, 2), 0, 2, axis=1), dealt)
        assert all((each.indices == distinct) == known for each in made)
    left, right = bench.run(made)
    assert left.indices.tolist() == right.indices.tolist() == [4, 1, 2]
    assert (left.values.tolist(), right.values.tolist()) == ([[101], [10], [1000]], [[202], [20], [2000]])


def test_pieces_that_know_their_rows_are_not_sent_their_numbers() -> None:
    """What the look-up has dealt is used again: the numbers, and the order in which its rows came."""
    with Bench(1) as bench:
        value = tf.IndexedSlices(tf.constant(ROWS), tf.constant(IDS))
        distinct, _ = tf.unique(value.indices)
        asked = tuple(map(recorded, (tf.constant([1]), tf.constant([0]), tf.constant([0]))))
        dealt = DealtRows(recorded(distinct), recorded(tf.constant([2, 0, 2, 1])), asked)
        made = pieces_of(bench, value, cut("w", (6, 2), 0, 3), dealt)
        assert [each.indices for each in made] == [*asked]
    assert [each.values.tolist() for each in bench.run(made)] == [[[10, 20]], [[1000, 2000]], [[101, 202]]]


def towers(*losses: list[tuple[float, float | None]]) -> list[Any]:
    """Return towers whose losses have some values and weights; the name of a tensor is its number."""
    found = []
    for index, own in enumerate(losses):
        parts = [
            SimpleNamespace(value=str(value), weight=None if weight is None else str(weight))
            for value, weight in own
        ]
        found.append(
            SimpleNamespace(
                tower=SimpleNamespace(index=index),
                template=SimpleNamespace(losses=parts),
                record=lambda name: recorded(tf.constant(float(name))),
            )
        )
    return found


def spot(bench: Bench) -> Spot:
    """Return where a test writes."""
    return Spot(bench.writer, "", bench.homes[0])


def test_a_loss_is_the_mean_of_the_towers_by_their_shares() -> None:
    """A single part without a weight is the loss itself, by its name."""
    with Bench(1) as bench:
        at, both = spot(bench), towers([(8.0, None)], [(4.0, None)])
        found = loss_sums(at, both, lambda each: (0.25, 0.75)[each.tower.index])
        (part,) = found
        assert (part.weight, part.tensors, part.value.op) == (None, (part.value,), "data_loss")
        assert data_loss(at, found, "sum") is part.value
    assert bench.run(part.value) == 5.0


def test_values_and_weights_are_summed_apart() -> None:
    """The quotient is made of the sums, and is not a mean of the quotients of the towers."""
    with Bench(1) as bench:
        at, both = spot(bench), towers([(8.0, 1.0), (3.0, None)], [(4.0, 0.0), (5.0, None)])
        found = loss_sums(at, both, lambda _: 0.5)
        assert [each.weight is None for each in found] == [False, True]
        assert len(found[0].tensors) == 2
        means, whole = [each.mean(at) for each in found], data_loss(at, found, "sum")
        quotient = data_loss(at, loss_sums(at, towers([(8.0, 2.0)]), lambda _: 1.0), "quotient")
    assert bench.run([each.value for each in found]) == [6.0, 4.0]
    assert bench.run([found[0].weight, *means]) == [0.5, 12.0, 4.0]
    assert bench.run([whole, quotient]) == [16.0, 4.0]


@pytest.mark.parametrize(("loss", "expected"), [([(8.0, None)], 8.0), ([(8.0, 4.0), (1.0, None)], 3.0)])
def test_the_loss_of_a_tower_is_its_own(loss: list[tuple[float, float | None]], expected: float) -> None:
    """Without its share, whatever the others have."""
    with Bench(1) as bench:
        found = tower_loss(spot(bench), towers(loss)[0])
    assert bench.run(found) == expected


def test_nothing_is_divided_by_a_weight_of_zero() -> None:
    """A part of which masks leave nothing is zero, and so is the factor on its gradients."""
    with Bench(1) as bench:
        at, (zero, two) = spot(bench), map(recorded, (tf.constant(0.0), tf.constant(2.0)))
        mean = LossSum(two, zero).mean(at)
        none, *factors = inverse_weights(at, [None, zero, two])
        assert none is None
    assert bench.run([mean, *factors]) == [0.0, 0.0, 0.5]
