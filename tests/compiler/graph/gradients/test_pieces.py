"""Gradients of weights in pieces are cut as the weights are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.gradients.pieces import Dealt, cut_rows
from compiler.graph.ledger import given, tensor_given
from compiler.graph.rows import sum_equal_rows
from compiler.shards import Shard, cut
from compiler.step.pieces import cut_value
from compiler.step.record import Rows
from tests.compiler.step.sums.test_sums import Bench

WHOLE = np.arange(20, dtype=np.float32).reshape(5, 4)
ROWS, IDS = np.array([[1, 2], [10, 20], [100, 200], [1000, 2000]], np.float32), [4, 1, 4, 2]
LINE = (Shard("w", 0, 2, 0, 0, 11, (5, 4), flat=True), Shard("w", 1, 2, 0, 11, 9, (5, 4), flat=True))


def summed(bench: Bench, rows: Any) -> Any:
    """Return rows of which those of equal numbers are summed."""
    value = given(rows)
    assert isinstance(value, Rows)
    merged = sum_equal_rows(bench.ledger, [value], "merged", bench.homes[0], "aggregate")
    return bench.ledger.made(merged)


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
        value = tensor_given(tf.constant(WHOLE))
        pieces = bench.made(cut_value(bench.writer, "cut", value, shards, bench.homes[0]))
    found = bench.run(pieces)
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


def test_rows_go_to_the_pieces_that_have_them() -> None:
    """Equal rows are added up first, and each has its number within the piece."""
    with Bench(1) as bench:
        value = summed(bench, tf.IndexedSlices(tf.constant(ROWS), tf.constant(IDS)))
        made = cut_rows(value, cut("w", (6, 2), 0, 3))
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
        dealt = Dealt(distinct, places, (distinct, distinct)) if known else None
        value = value if known else summed(bench, value)
        made = cut_rows(value, cut("w", (6, 2), 0, 2, axis=1), dealt)
        assert all((each.indices is distinct) == known for each in made)
    left, right = bench.run(made)
    assert left.indices.tolist() == right.indices.tolist() == [4, 1, 2]
    assert (left.values.tolist(), right.values.tolist()) == ([[101], [10], [1000]], [[202], [20], [2000]])


def test_pieces_that_know_their_rows_are_not_sent_their_numbers() -> None:
    """What the look-up has dealt is used again: the numbers, and the order in which its rows came."""
    with Bench(1) as bench:
        value = tf.IndexedSlices(tf.constant(ROWS), tf.constant(IDS))
        distinct, _ = tf.unique(value.indices)
        asked = (tf.constant([1]), tf.constant([0]), tf.constant([0]))
        dealt = Dealt(distinct, tf.constant([2, 0, 2, 1]), asked)
        made = cut_rows(value, cut("w", (6, 2), 0, 3), dealt)
        assert all(each.indices is ids for each, ids in zip(made, asked, strict=True))
    assert [each.values.tolist() for each in bench.run(made)] == [[[10, 20]], [[1000, 2000]], [[101, 202]]]
