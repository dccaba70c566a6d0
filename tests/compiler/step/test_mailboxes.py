"""Mailboxes: sums of what workers have put there, whatever is in the box of one that does not count."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from attrs import define

from compiler.graph.fragments import recorded
from compiler.graph.ledger import Ledger
from compiler.step.mailboxes import Box, sent_rows
from tests.compiler.step.sums.test_sums import Bench

WORKERS = 3


@define
class Post:
    """The boxes of three workers in a session, with placeholders for what they put there and its weights."""

    session: Any
    ledger: Ledger
    box: Box
    value: Any
    put: list[Any]
    clear: list[Any]
    plain: Any
    weights: Any
    weighted: Any

    def fill(self, values: list[Any]) -> None:
        """Empty the boxes, and put some values into those of the first workers."""
        self.session.run(self.clear)
        for worker, value in enumerate(values):
            self.session.run(self.put[worker], {self.value: value})


def made(*, sparse: bool) -> Iterator[Post]:
    """Make boxes for a tensor of the shape [4, 2], or for rows of it."""
    bench = Bench(2)
    with bench:
        box = Box("w", "float32", (4, 2), bench.homes[1], bench.writer, sparse=sparse)
        value: Any = tf.compat.v1.placeholder(tf.float32, (None if sparse else 4, 2))
        if sparse:
            value = tf.IndexedSlices(value, tf.compat.v1.placeholder(tf.int32, (None,)))
        weights = tf.compat.v1.placeholder(tf.float32, (WORKERS,))
        factors = [*map(recorded, tf.unstack(weights))]
        put = [box.put(worker, recorded(value)) for worker in range(WORKERS)]
        clear, plain, weighted = box.clear(WORKERS), box.total(WORKERS), box.total(WORKERS, factors)
    ops = [[bench.op(name) for name in names] for names in (*put, clear)]
    with bench.session() as session:
        value, plain, weights, weighted = bench.found((value, plain, weights, weighted))
        yield Post(session, bench.ledger, box, value, ops[:-1], ops[-1], plain, weights, weighted)


@pytest.fixture(scope="module")
def tensors() -> Iterator[Post]:
    """Boxes for a whole tensor."""
    yield from made(sparse=False)


@pytest.fixture(scope="module")
def tables() -> Iterator[Post]:
    """Boxes for rows of a table."""
    yield from made(sparse=True)


def test_the_sum_of_tensors_is_that_of_all_boxes(tensors: Post) -> None:
    """Empty boxes count as zeros, and weights multiply; a weight of zero hides what is no number."""
    one, two = np.arange(8, dtype=np.float32).reshape(4, 2), np.ones((4, 2), np.float32)
    tensors.fill([one, two])
    np.testing.assert_array_equal(tensors.session.run(tensors.plain), one + two)
    tensors.session.run(tensors.put[1], {tensors.value: 3 * two})  # again: nothing is added up in a box
    tensors.session.run(tensors.put[2], {tensors.value: np.nan * two})
    found = tensors.session.run(tensors.weighted, {tensors.weights: [0.5, 2.0, 0.0]})
    np.testing.assert_array_equal(found, 0.5 * one + 6)
    tensors.fill([])
    np.testing.assert_array_equal(tensors.session.run(tensors.plain), np.zeros((4, 2)))
    assert tensors.plain.shape.as_list() == [4, 2]
    assert tensors.plain.op.name == "mail/w/sum"


def test_the_sum_of_rows_has_each_row_once(tables: Post) -> None:
    """Rows of equal index of several workers are summed, and empty boxes have none."""
    tables.fill([([[1.0, 2.0], [3.0, 4.0]], [2, 0]), ([[5.0, 6.0]], [2])])
    found = tables.session.run(tables.plain)
    rows = dict(zip(found.indices.tolist(), found.values.tolist(), strict=True))
    assert rows == {2: [6.0, 8.0], 0: [3.0, 4.0]}
    found = tables.session.run(tables.weighted, {tables.weights: [0.0, 2.0, 1.0]})
    rows = dict(zip(found.indices.tolist(), found.values.tolist(), strict=True))
    assert rows == {2: [10.0, 12.0], 0: [0.0, 0.0]}
    tables.fill([])
    assert tables.session.run(tables.plain).indices.size == 0
    assert tables.plain.values.shape.as_list() == [None, 2]


def test_a_box_that_is_being_written_can_be_taken(tables: Post) -> None:
    """It may have the rows of one step and the indices of another: as many count as there are of both."""
    rows, indices = ([[1.0, 1.0], [2.0, 2.0]], [1, 3]), ([[4.0, 4.0]], [0])
    for first, second in ((rows, indices), (indices, rows)):
        tables.fill([first])
        written = {tables.value.values: second[0], tables.value.indices: second[1]}
        tables.session.run(tables.put[0][0], written)  # the rows of the second, not yet its indices
        found = tables.session.run(tables.weighted, {tables.weights: [1.0, 1.0, 1.0]})
        assert found.indices.tolist() == first[1][:1]
        assert found.values.tolist() == second[0][:1]


def test_boxes_are_where_they_are_asked_to_be(tensors: Post) -> None:
    """Each worker has boxes of its own, and all ops are beside them."""
    entries = {name: each for name, each in tensors.ledger.entries.items() if name.startswith("mail/w/")}
    assert {each.device.ref for each in entries.values()} == {"cpu[1]"}
    made = [name for name, each in entries.items() if each.role == "variable"]
    assert sorted(made) == [f"mail/w/worker_{worker}/value_box" for worker in range(WORKERS)]
    assert {each.role for each in entries.values()} == {"variable", "aggregate"}


def test_what_is_sent_as_rows_is_known_by_its_workers(tensors: Post, tables: Post) -> None:
    """The rows and their numbers; boxes for tensors have none."""
    assert list(sent_rows([tensors.box])) == []
    found = [[each.name for each in boxes.values()] for boxes in sent_rows([tables.box])]
    assert found == [
        [f"mail/w/worker_{worker}/{part}_box:0" for worker in range(WORKERS)] for part in ("rows", "indices")
    ]
