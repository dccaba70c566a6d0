"""Asynchronous training in one graph: exact counts, nothing lost, no hang, bounded leads."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from dsl import ir
from tests.support import Training, classifier, examples, largest_difference, spec_of

COUNTER = """
tfdeploy = 1

model "counter" {{
  one = input(float32, [1])
  zero = input(float32, [1])
  counted = one -> Dense(1, use_bias = false, kernel_initializer = "zeros", name = "count")
  loss = [zero, counted] -> MeanAbsoluteError()
}}

devices {{ cpu = {clones} }}
clones {{ count = {clones}, batch = 1 }}
place {{ clones -> cpu[*], variables -> cpu[0] }}
update {{ mode = async, optimizer = {optimizer} }}
train {{ seed = 1 }}
"""


def counter(clones: int = 4, optimizer: str = "SGD(1)", **overrides: str) -> ir.Spec:
    """Return a spec whose only weight goes one further from -1e6 with every update."""
    return spec_of(COUNTER.format(clones=clones, optimizer=optimizer), **overrides)


ONES = {"one": np.ones((8, 1), np.float32), "zero": np.full((8, 1), 1e6, np.float32)}


def loops_of(training: Training, **options: Any) -> Any:
    """Return the loops of a compiled graph."""
    from tfdeploy.runtime.async_loop import AsyncLoops

    return AsyncLoops(training.compiled, training.session, **options)


@pytest.mark.parametrize("ema", [{}, {"update__ema": "0.5"}], ids=["plain", "ema"])
def test_no_update_is_lost(ema: dict[str, str]) -> None:
    """After 400 updates by four threads the step is 400, and so is a weight that each update moves by one."""
    with Training(counter(**ema), ONES) as training:
        loops = loops_of(training)
        assert loops.run(250) == 250
        assert loops.run(150) == 150
        values = training.values()
    assert values["global_step"] == 400
    assert values["count/kernel"].item() == 400.0
    assert sum(loops.tickets.made) == 400
    assert all(loops.tickets.made)


def test_no_row_of_an_embedding_is_lost() -> None:
    """Four clones add to the same rows of a table; every addition arrives."""
    text = COUNTER.format(clones=4, optimizer="SGD(1)")
    text = text.replace("one = input(float32, [1])", "one = input(int32, [])").replace(
        'Dense(1, use_bias = false, kernel_initializer = "zeros", name = "count")',
        'Embedding(3, 1, embeddings_initializer = "zeros", name = "count")',
    )
    data = {"one": np.full(8, 2, np.int32), "zero": ONES["zero"]}
    with Training(spec_of(text), data) as training:
        loops_of(training).run(400)
        values = training.values()
    np.testing.assert_array_equal(values["count/embeddings"], [[0.0], [0.0], [400.0]])


def test_a_run_ends_though_one_clone_is_ten_times_slower() -> None:
    """A clone that takes ten times as long makes few of the updates; the run ends with the exact count."""
    with Training(counter(clones=3), ONES) as training:
        loops = loops_of(training, before=lambda clone: time.sleep(0.02 if clone == 1 else 0.002))
        loops.run(120)
        values = training.values()
    assert values["global_step"] == 120
    assert loops.tickets.made[1] < min(loops.tickets.made[0], loops.tickets.made[2]) / 3


@pytest.mark.parametrize("staleness", [1, 3])
def test_no_clone_is_further_ahead_than_the_bound(staleness: int) -> None:
    """With one clone ten times slower the others wait for it: the measured lead is the bound, never more."""
    spec = counter(clones=3, update__staleness=str(staleness))
    with Training(spec, ONES) as training:
        loops = loops_of(training, before=lambda clone: time.sleep(0.02 if clone == 1 else 0.002))
        loops.run(60)
        values = training.values()
    assert values["global_step"] == 60
    assert loops.tickets.largest_lead == staleness


def test_a_clone_that_fails_ends_the_others() -> None:
    """What one clone's thread raises is raised by the run, and clones that wait for it are let go."""

    def fail(clone: int) -> None:
        if clone == 1 and loops.updates > 10:
            raise RuntimeError("clone 1 is ill")

    with Training(counter(update__staleness="2"), ONES) as training:
        loops = loops_of(training, before=fail)
        with pytest.raises(RuntimeError, match="clone 1 is ill"):
            loops.run(10_000)
        assert training.values()["global_step"] == loops.updates


def test_the_loops_pause_when_asked() -> None:
    """Where `stop` says so no more updates begin, and a later call goes on."""
    with Training(counter(), ONES) as training:
        loops = loops_of(training)
        made = loops.run(10_000, stop=lambda: loops.updates >= 20)
        assert 20 <= made < 20 + 4
        loops.run(100)
        assert training.values()["global_step"] == made + 100


@pytest.mark.parametrize("optimizer", ["SGD(0.1)", "Momentum(0.1)", "Adam(1e-2)"])
@pytest.mark.parametrize("batch", [8, (6, 9)], ids=["equal", "unequal"])
def test_clones_in_turn_are_one_tower_on_their_batches(optimizer: str, batch: Any) -> None:
    """Updates made one after the other are those of single towers on the same batches in the same order."""
    sizes = batch if isinstance(batch, tuple) else (batch, batch)
    data = examples(8 * sum(sizes))
    spec = classifier(
        clones=2, batch=batch, optimizer=optimizer, update__mode="async", model__regularize="L2(1e-2)"
    )
    with Training(spec, data) as training:
        for _ in range(4):
            for loop in training.compiled.train_loops:
                training.session.run(loop.train_op)
        found = training.values()
    expected = _in_turn(data, sizes, optimizer)
    assert largest_difference(found, expected) < 1e-4


def _in_turn(data: dict[str, Any], sizes: tuple[int, ...], optimizer: str) -> dict[str, Any]:
    """Train a single tower of each size on its stretches of the data, handing the weights to and fro."""
    state: dict[str, Any] | None = None
    at = 0
    for _ in range(4):
        for size in sizes:
            piece = {name: array[at : at + size] for name, array in data.items()}
            at += size
            spec = classifier(clones=1, batch=size, optimizer=optimizer, model__regularize="L2(1e-2)")
            with Training(spec, piece) as one:
                if state is not None:
                    one.assign(state)
                one.steps(1)
                state = one.values()
    assert state is not None
    return state


def test_losses_and_metrics_of_a_loop_are_those_of_the_clones_batch() -> None:
    """A clone's loop tells the loss and the metric states of the batch that it drew from the stream."""
    data = examples(16)
    with Training(classifier(clones=2, batch=8, update__mode="async"), data) as training:
        loop = training.compiled.train_loops[1]
        clone = training.compiled.clones[1]
        states = list(loop.metrics["accuracy"].states)
        loss, outputs, (right, seen) = training.session.run([loop.data_loss, clone.outputs, states])
    assert seen == 8
    assert right == (outputs.argmax(axis=1) == data["digit"][:8]).sum()  # the first to draw
    picked = outputs[np.arange(8), data["digit"][:8]]
    assert loss == pytest.approx((np.log(np.exp(outputs).sum(axis=1)) - picked).mean(), rel=1e-5)
