"""Gradients of weights in pieces are cut as the weights are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.fragments import recorded, write_traced
from compiler.graph.gradients.collect import cut_rows
from compiler.graph.stamp.pieces import DealtRows
from compiler.shards import Shard, cut
from compiler.step.values import cut_value, merge_rows
from compiler.step.writer import Spot
from tests.compiler.step.sums.test_sums import Bench

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
