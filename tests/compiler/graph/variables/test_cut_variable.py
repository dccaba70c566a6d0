"""A tensor of a checkpoint, and the variables that are its pieces."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.variables.nodes import (
    CutVariable,
    assign,
    pieces_of,
    read_saved,
    variables_of,
    whole_of,
)
from compiler.shards import Shard, cut

WHOLE = np.arange(20, dtype=np.float32).reshape(5, 4)


def line() -> tuple[Shard, ...]:
    """Return three pieces of the elements in a line, which begin and end within rows."""
    sizes, starts = (7, 7, 6), (0, 7, 14)
    return tuple(
        Shard("w", at, 3, 0, start, size, (5, 4), flat=True)
        for at, (start, size) in enumerate(zip(starts, sizes, strict=True))
    )


@pytest.mark.parametrize(
    "shards",
    [cut("w", (5, 4), 0, 2), cut("w", (5, 4), 0, 3, axis=1), line()],
    ids=["rows", "columns", "line"],
)
def test_pieces_and_the_whole_are_made_of_each_other(shards: tuple[Shard, ...]) -> None:
    """Along either axis, or as a line of elements; a variable in one piece is itself."""
    variables: Any = [SimpleNamespace(dtype=tf.float32, number=each.number) for each in shards]
    saved = CutVariable(shards, tuple(variables))
    assert (saved.shape.as_list(), saved.dtype) == ([5, 4], tf.float32)
    pieces = pieces_of(saved, WHOLE)
    assert [each.shape for each in pieces] == [each.shape for each in shards]
    np.testing.assert_array_equal(pieces[0].ravel()[:2], WHOLE.ravel()[:2])
    np.testing.assert_array_equal(whole_of(saved, pieces), WHOLE)
    assert variables_of(saved) == tuple(variables)
    assert variables_of(variables[0]) == (variables[0],)
    assert [each is WHOLE for each in (*pieces_of(variables[0], WHOLE), whole_of(variables[0], [WHOLE]))] == [
        True,
        True,
    ]


def test_tensors_are_read_and_assigned_piece_by_piece() -> None:
    """In one run of a session, whatever they consist of, unless two start from one tensor."""
    shards = cut("w", (5, 4), 0, 2)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        parts = [tf.compat.v1.Variable(tf.zeros(each.shape), use_resource=True) for each in shards]
        first = tf.constant(3.0)
        step, mean = (tf.compat.v1.Variable(first, use_resource=True) for _ in range(2))
        saved = {"w": CutVariable(shards, tuple(parts)), "step": step, "mean": mean}
        session.run(tf.compat.v1.global_variables_initializer())
        assign(session.run, saved, {"w": WHOLE, "step": np.float32(4.0), "mean": np.float32(5.0)})
        found = read_saved(session.run, saved)
    assert list(found) == ["w", "step", "mean"]
    np.testing.assert_array_equal(found["w"], WHOLE)
    assert (found["step"], found["mean"]) == (4.0, 5.0)
