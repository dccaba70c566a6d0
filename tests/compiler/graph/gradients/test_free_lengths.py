"""Batches of different lengths: clones against one tower on the whole batch and against plain Keras."""

from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from compiler.graph.storage.export import plain_model
from dsl import ir
from tests.support import Training, cloned, largest_difference, spec_of

LENGTHS = (5, 1, 12, 3, 7, 2, 9, 4, 11, 6, 1, 8, 3, 10, 2, 5, 1, 4, 6, 2)
BATCH = 8
ROUNDING = 5e-5
TEXT = """
  words = input(int32, [none])
  tags = input(int32, [none])
  mood = input(float32, [1])
  table = words -> Embedding(20, 4, mask_zero = true, name = "table")
  states = table -> {states}
  attended = {attended}
  y = attended -> Dense(5, name = "tag")
  size = states -> GlobalAveragePooling1D() -> Dense(1, name = "size")
  output = y
  loss = (
    ([tags, y] -> SparseCategoricalCrossentropy(from_logits = true))
    + 0.3 * ([mood, size] -> MeanSquaredError())
  )
  metrics {{ right = [tags, y] -> SparseCategoricalAccuracy() }}
"""
STATES = 'Bidirectional(LSTM(3, return_sequences = true), name = "lstm")'
ATTENDED = '[states, states] -> MultiHeadAttention(2, 3, name = "attention")'


def batches(size: int) -> Any:
    """Return sentences of different lengths, a batch filled up to its longest; they come again and again."""
    generator = np.random.default_rng(5)
    rows = [
        {
            "words": generator.integers(1, 20, length),
            "tags": generator.integers(0, 5, length),
            "mood": [length / 12],
        }
        for length in LENGTHS
    ]
    kinds = {"words": ([None], tf.int32), "tags": ([None], tf.int32), "mood": ([1], tf.float32)}
    signature = {name: tf.TensorSpec(*each) for name, each in kinds.items()}
    found = tf.data.Dataset.from_generator(lambda: iter(rows), output_signature=signature)
    return found.repeat().padded_batch(size, drop_remainder=True)


def tagger(
    clones: int = 1,
    batch: Any = BATCH,
    place: str = "",
    states: str = STATES,
    attended: str = ATTENDED,
    **overrides: str,
) -> ir.Spec:
    """Return the spec of a model that gives every word a tag, and guesses at the sentence."""
    text, place = TEXT.format(states=states, attended=attended), f"clones -> cpu[*]\n{place}"
    update = "optimizer = SGD(0.5)"
    return spec_of(cloned(text, clones, batch=batch, place=place, update=update, seed=7), **overrides)


@cache
def one_tower() -> tuple[dict[str, Any], list[float]]:
    """Return what four steps of one tower on whole batches end with, and the losses before each."""
    with Training(tagger(), batches) as run:
        losses = run.steps(4)
        return run.values(), losses


@pytest.mark.full
@pytest.mark.parametrize(
    ("clones", "batch", "more"),
    [
        (2, 4, {}),
        (3, (1, 5, 2), {"update__aggregate": "ring", "place": "variables -> replicated"}),
        (2, 2, {"update__accumulate": "2"}),
    ],
    ids=["two-clones", "unequal-replicated", "micro-batches"],
)
def test_clones_are_one_tower(clones: int, batch: Any, more: dict[str, Any]) -> None:
    """Weights and losses are those of one tower, with masks, recurrent layers and attention."""
    expected, losses = one_tower()
    with Training(tagger(clones, batch, **more), batches) as run:
        found = run.steps(4)
        assert found == pytest.approx(losses, rel=ROUNDING)
        values = run.values()
        close(values, expected)


def close(values: dict[str, Any], expected: dict[str, Any]) -> None:
    """Check that two sets of variables are equal but for rounding.

    The bias of the keys of attention has no effect, so that its gradient is nothing but rounding.
    """
    keys = [name for name in expected if name.endswith("key/bias")]
    for name in keys:
        assert np.max(np.abs(values[name] - expected[name])) < ROUNDING
    kept = expected.keys() - set(keys)
    assert largest_difference({n: values[n] for n in kept}, {n: expected[n] for n in kept}) < ROUNDING


@pytest.mark.full
def test_one_tower_is_keras() -> None:
    """Losses are those of plain Keras on the same padded batches, with the same weights at the beginning."""
    with Training(tagger(), batches) as run:
        before = run.values()
        plain = plain_model(run.compiled, whole=True)
        for name, variable in plain.variables.items():
            variable.assign(before[name])
        fetches = [run.compiled.train_input.batch, run.compiled.total_loss, run.compiled.train_op]
        steps = [run.session.run(fetches)[:2] for _ in range(2)]
        found = {name: value for name, value in run.values().items() if name in plain.variables}
    assert [batch["words"].shape for batch, _ in steps] == [(8, 12), (8, 11)]
    tags = plain.model.get_layer("tag").output
    model = keras.Model(plain.model.inputs[0], [tags, plain.model.get_layer("size").output])
    entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), [entropy, "mse"], loss_weights=[1.0, 0.3], run_eagerly=True)
    for batch, loss in steps:
        expected = model.train_on_batch(batch["words"], [batch["tags"], batch["mood"]])
        assert loss == pytest.approx(expected[0], rel=ROUNDING)
    close(found, {name: variable.numpy() for name, variable in plain.variables.items()})


def test_a_clone_that_draws_several_batches_fills_them_up() -> None:
    """Clones that update alone with unequal batches join batches of different sizes."""
    spec = tagger(2, (2, 6), states="Dense(6)", attended="states", update__mode="async")
    with Training(spec, batches) as run:
        graph = run.compiled.graph
        found = [graph.get_tensor_by_name(f"input/clone_1/{name}:0") for name in ("words", "tags")]
        words, tags = run.session.run(found)
    lengths = [int(row.nonzero()[0][-1]) + 1 for row in words]
    assert words.shape == tags.shape == (6, max(lengths))
    assert len({max(lengths[at : at + 2]) for at in (0, 2, 4)}) > 1
    assert lengths == list(LENGTHS[:6])
