"""States of layers of the user's, which change without gradients, are joined as the layer declares."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from tests.support import Training, cloned, spec_of
from tfdeploy.runtime.verify.session import Options, Verification

COUNTING = """
import keras
from keras import ops


class Norm(keras.layers.BatchNormalization):
    pass


class Counting(keras.layers.Layer):
    def __init__(self, inside=False, declared=True, **kwargs):
        super().__init__(**kwargs)
        self.kinds = ["sum", "mean", "only_first_replica"] if declared else ["none"]
        self.norm = Norm()

    def build(self, shape):
        self.seen = self.add_weight(
            shape=(), dtype="int32", trainable=False, initializer="zeros", name="seen",
            aggregation=self.kinds[0],
        )
        self.totals = [
            self.add_weight(
                shape=(3,), trainable=False, initializer="ones", name=f"of_{each}", aggregation=each
            )
            for each in self.kinds
        ]
        self.norm.build(shape)
        super().build(shape)

    def call(self, x, training=None):
        if training:
            self.seen.assign_add(ops.shape(x)[0])
            for each in self.totals:
                each.assign(each + ops.sum(x, axis=0))
        return self.norm(x, training=training)
"""

MODEL = """
  x = input(float32, [3])
  y = input(float32, [1])
  p = x -> python("counting:Counting"{arguments}, name = "counter") -> Dense(1, name = "last")
  loss = [y, p] -> MeanSquaredError()
"""

REPLICATED, PIECES = "variables -> replicated", 'variables("*/of_*") -> sharded(cpu[*])'


def _spec(folder: Path, batch: str, update: str = "", place: str = "", arguments: str = "") -> Any:
    (folder / "counting.py").write_text(COUNTING)
    text, update = MODEL.format(arguments=arguments), f"optimizer = SGD(0.01){update}"
    return spec_of(cloned(text, batch.count(",") + 1, batch=batch, place=place, update=update, seed=1))


def _arrays(count: int) -> dict[str, Any]:
    random = np.random.default_rng(3)
    return {
        "x": random.standard_normal((count, 3)).astype(np.float32),
        "y": random.standard_normal((count, 1)).astype(np.float32),
    }


@pytest.mark.parametrize(
    ("update", "place"),
    [
        ("", ""),
        pytest.param(", accumulate = 2", REPLICATED, marks=pytest.mark.full),
        pytest.param("", PIECES, marks=pytest.mark.full),
        pytest.param(", precision = mixed_float16", "", marks=pytest.mark.full),
        (", mode = local, average_every = 2", ""),
        pytest.param(", mode = local, average_every = 3", REPLICATED, marks=pytest.mark.full),
        (", mode = async", ""),
    ],
)
def test_states_are_joined_as_they_are_declared(update: str, place: str, tmp_path: Path) -> None:
    """A sum has seen every example once, a mean is weighted by examples, the rest is of clone 0."""
    sizes, steps = (5, 3, 4), 2
    micro = 2 if "accumulate" in update else 1
    batch = micro * sum(sizes)
    arrays = _arrays(steps * batch)
    with Training(_spec(tmp_path, "[5, 3, 4]", update, place), arrays, base=str(tmp_path)) as training:
        compiled = training.compiled
        loops = compiled.train_loops
        if loops:
            for loop in loops * steps:
                training.session.run(loop.train_op)
        else:
            training.steps(steps)
        if compiled.publish_op is not None:
            training.session.run(compiled.publish_op)
        found = training.values()
    assert compiled.warnings == ()
    assert found["counter/seen"] == steps * (sum(loop.batch for loop in loops) if loops else batch)
    if loops:  # each has taken its batches from one stream
        return
    ends = micro * np.cumsum([0, *sizes])
    parts = [np.split(each, ends[1:-1]) for each in np.split(arrays["x"], steps)]
    sums = np.array([[part.sum(0) for part in step] for step in parts])
    shares = np.array(sizes) / sum(sizes)
    bound = 0.02 if "float16" in update else 1e-5
    close: dict[str, Any] = {"rtol": bound, "atol": bound}
    np.testing.assert_allclose(found["counter/of_sum"], 1 + sums.sum((0, 1)), **close)
    np.testing.assert_allclose(
        found["counter/of_mean"], 1 + np.tensordot(sums.sum(0), shares, (0, 0)), **close
    )
    np.testing.assert_allclose(found["counter/of_only_first_replica"], 1 + sums[:, 0].sum(0), **close)


def test_a_state_that_declares_nothing_is_named(tmp_path: Path) -> None:
    """The warning names the layer and its states, but none of the normalization inside it."""
    arguments = ", declared = false"
    spec = _spec(tmp_path, "[5, 3]", arguments=arguments)
    with Training(spec, _arrays(8), base=str(tmp_path)) as training:
        training.steps(1)
        seen = training.values()["counter/seen"]
        warnings = training.compiled.warnings
    assert seen == 5
    assert [(each.code, each.message) for each in warnings] == [
        ("TFD564", "`Counting` does not say how clones join its state `counter/seen`"),
        ("TFD564", "`Counting` does not say how clones join its state `counter/of_none`"),
    ]
    alone = Training(_spec(tmp_path, "[8]", arguments=arguments), _arrays(8), base=str(tmp_path))
    with alone as training:
        assert training.compiled.warnings == ()


@pytest.mark.full
def test_verify_agrees(tmp_path: Path) -> None:
    """All modes have the states of their references."""
    spec = evolve(_spec(tmp_path, "[4, 4]"), path=str(tmp_path / "counted.tfdeploy"))
    verification = Verification(spec, Options(quick=True, synthetic=True))
    outcomes = [*verification.outcomes()]
    assert {each.case.mode for each in outcomes} == {"sync", "async", "local"}
    assert [each.case.title for each in outcomes if each.differences.largest > verification.tolerance] == []
