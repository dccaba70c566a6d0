"""Made-up examples: integers that are looked up in a table are numbers of its rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from compiler.graph.inspect.one_step import made_up_batch


def test_numbers_of_rows_are_those_of_the_smallest_table() -> None:
    """Other integers are zeros, also if something is looked up in them."""
    names = {"words": tf.int32, "label": tf.int32, "text": tf.string, "picture": tf.float32}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batch = {name: tf.compat.v1.placeholder(dtype, [64, 3], name=name) for name, dtype in names.items()}
        first, second = tf.split(batch["words"], 2)
        last = tf.where(first < 0, first + 9, first)
        for rows, numbers in ((50, second), (9, last), (5, tf.constant([0]))):
            tf.raw_ops.GatherV2(params=tf.zeros([rows, 2]), indices=numbers, axis=0)
        tf.raw_ops.GatherV2(params=batch["label"], indices=0, axis=0)
        pipe: Any = SimpleNamespace(
            wanted=[
                SimpleNamespace(name=name, dtype=dtype.name, assumed_shape=(3,))
                for name, dtype in names.items()
            ],
            batch=batch,
            size=64,
        )
        found = session.run(made_up_batch(pipe))
    assert set(found["words"].flatten()) == set(range(9))
    assert found["words"].shape == (64, 3)
    assert not found["label"].any()
    assert set(found["text"].flatten()) == {b""}
    assert 0 <= found["picture"].min() < found["picture"].max() <= 1
