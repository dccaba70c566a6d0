"""Ops on many mailboxes that are written at once are those that are made one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.ledger import Entry, Ledger
from compiler.graph.workers.all_boxes import clear_all, put_all, total_all
from compiler.graph.workers.mailboxes import Box
from compiler.pipeline import make_plan
from compiler.reasons import Placed, Reason
from tests.support import classifier

WORKERS = 3


def written(how: Callable[[list[Box]], list[Any]]) -> tuple[list[str], list[Any], dict[str, Entry]]:
    """Return what is made for three boxes, by name, and all nodes and the ledger of their graph."""
    plan = make_plan(classifier(clones=2))
    ledger, reason = Ledger(plan), Reason("test", "default")
    places = [Placed(each, reason) for each in plan.topology.devices]
    with tf.Graph().as_default() as graph:
        small = Box("a/w", tf.float32, (4, 2), places[1], ledger)
        large = Box("a/large", tf.float16, (25, 40), places[0], ledger)
        count = Box("count", tf.int64, (), places[0], ledger)
        small.put(1, tf.ones((4, 2)))  # the other boxes are not in the graph yet
        large.take(0)
        made = [each.name for each in how([small, large, count])]
        small.put(2, tf.zeros((4, 2)))  # the box is known now
        return made, list(graph.as_graph_def(add_shapes=True).node), ledger.entries


def test_boxes_are_emptied_at_once_by_the_same_ops_as_one_by_one() -> None:
    """Names, attributes, devices and records are those of single boxes, in the same order."""
    at_once = written(lambda boxes: clear_all(boxes, WORKERS))
    one_by_one = written(lambda boxes: [op for box in boxes for op in box.clear(WORKERS)])
    assert at_once == one_by_one


@pytest.mark.parametrize("workers", [1, WORKERS])
def test_boxes_are_added_up_at_once_by_the_same_ops_as_one_by_one(workers: int) -> None:
    """The same holds for sums, also for that of a single worker."""
    at_once = written(lambda boxes: total_all(boxes, workers))
    one_by_one = written(lambda boxes: [box.total(workers) for box in boxes])
    assert at_once == one_by_one


def test_boxes_are_filled_at_once_by_the_same_ops_as_one_by_one() -> None:
    """The same holds for values that are put into boxes, also for the second output of an op."""

    def values(boxes: list[Box]) -> list[tuple[Box, Any]]:
        second = tf.unstack(tf.ones((2, 4, 2)))[1]
        given = second, tf.ones((25, 40), tf.float16), tf.ones((), tf.int64)
        return [*zip(boxes, given, strict=True)]

    at_once = written(lambda boxes: put_all(values(boxes), 0))
    one_by_one = written(lambda boxes: [op for box, value in values(boxes) for op in box.put(0, value)])
    assert at_once == one_by_one
