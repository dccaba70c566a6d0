"""Asynchronous training in one graph: exact counts, nothing lost, no hang, bounded leads."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pytest

from dsl import ir
from tests.graphs import graph_of
from tests.support import Training, classifier, examples, largest_difference, spec_of
from tfdeploy.runtime.session.steps import CloneThreads

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


def threads_of(training: Training, before: Callable[[int], None] = lambda _: None) -> Any:
    """Return the threads of a compiled graph's clones; `before` is called in them before each update."""

    def update(loop: Any, first: bool) -> int:
        del first
        before(loop.clone)
        training.session.run(loop.train_op)
        clone: int = loop.clone
        return clone

    return CloneThreads(training.compiled.train_loops, update, training.compiled.plan.update.staleness)


def make(threads: Any, until: int) -> list[int]:
    """Let updates up to number `until` be made; return which clones made those that had not been made."""
    already = threads.begun
    threads.allow(until)
    return [threads.result() for _ in range(until - already)]


@pytest.mark.parametrize("ema", [{}, {"update__ema": "0.5"}], ids=["plain", "ema"])
def test_no_update_is_lost(ema: dict[str, str]) -> None:
    """After 400 updates by four threads the step is 400, and so is a weight that each update moves by one."""
    with Training(counter(**ema), ONES) as training, closing(threads_of(training)) as threads:
        make(threads, 250)
        assert training.values()["global_step"] == 250
        make(threads, 400)
        values = training.values()
    assert values["global_step"] == 400
    assert values["count/kernel"].item() == 400.0
    assert sum(threads.made) == 400
    assert all(threads.made)


@pytest.mark.parametrize(
    ("layer", "changed", "locks"),
    [
        ("", {}, 0),  # a single op
        ("", {"update__ema": "0.5"}, 4),
        (", kernel_constraint = NonNeg()", {}, 4),
        ("", {"optimizer": "SGD(1, momentum = 0.5)", "place": "slots -> cpu[1]"}, 4),
        ("", {"update__ema": "0.5", "update__mode": "sync"}, 0),
    ],
    ids=["plain", "ema", "constraint", "slots elsewhere", "in step"],
)
def test_updates_of_several_ops_take_turns(layer: str, changed: dict[str, Any], locks: int) -> None:
    """One lock for each clone, unless all clones update together or a single op does it all."""
    given = {"optimizer": "SGD(1)", "place": "", **changed}
    text = COUNTER.format(clones=4, optimizer=given.pop("optimizer"))
    text = text.replace('name = "count"', f'name = "count"{layer}')
    text = text.replace("variables -> cpu[0]", f"variables -> cpu[0]\n{given.pop('place')}")
    graph = graph_of(spec_of(text, **given)).graph
    assert sum(op.type == "MutexLock" for op in graph.get_operations()) == locks


def test_no_row_of_an_embedding_is_lost() -> None:
    """Four clones add to the same rows of a table; every addition arrives."""
    text = COUNTER.format(clones=4, optimizer="SGD(1)")
    text = text.replace("one = input(float32, [1])", "one = input(int32, [])").replace(
        'Dense(1, use_bias = false, kernel_initializer = "zeros", name = "count")',
        'Embedding(3, 1, embeddings_initializer = "zeros", name = "count")',
    )
    data = {"one": np.full(8, 2, np.int32), "zero": ONES["zero"]}
    with Training(spec_of(text), data) as training, closing(threads_of(training)) as threads:
        make(threads, 400)
        values = training.values()
    np.testing.assert_array_equal(values["count/embeddings"], [[0.0], [0.0], [400.0]])


def slowed(training: Training, wait: Callable[[CloneThreads[Any], int], bool]) -> Any:
    """Return the threads of a graph's clones: each clone stays before an update while it is to `wait`.

    When all updates that are permitted have begun, none waits any longer.
    """

    def before(clone: int) -> None:
        while threads.begun < threads._until and wait(threads, clone):
            time.sleep(0.0005)

    threads = threads_of(training, before)
    return threads


def test_a_run_ends_though_one_clone_is_ten_times_slower() -> None:
    """A clone that takes ten times as long makes few of the updates; the run ends with the exact count."""

    def wait(threads: CloneThreads[Any], clone: int) -> bool:
        first, slow, third = threads.made
        if clone == 1:
            return min(first, third) < 10 * (slow + 1)
        return threads.made[clone] > min(first, third) + 3

    with Training(counter(clones=3), ONES) as training, closing(slowed(training, wait)) as threads:
        clones = Counter(make(threads, 120))
        values = training.values()
    assert values["global_step"] == 120
    assert clones[1] < min(clones[0], clones[2]) / 3


@pytest.mark.parametrize("staleness", [1, 3])
def test_no_clone_is_further_ahead_than_the_bound(staleness: int) -> None:
    """A clone that waits is waited for: the largest lead is the bound, never more."""

    def wait(threads: CloneThreads[Any], clone: int) -> bool:
        return clone == 1 and max(threads.made) < threads.made[1] + staleness

    spec = counter(clones=3, update__staleness=str(staleness))
    with Training(spec, ONES) as training, closing(slowed(training, wait)) as threads:
        clones = make(threads, 60)
        values = training.values()
    assert values["global_step"] == 60
    leads = [_lead(clones[: at + 1]) for at in range(60)]
    assert max(leads) == staleness


def _lead(clones: list[int]) -> int:
    counts = [clones.count(clone) for clone in range(3)]
    return max(counts) - min(counts)


def test_a_clone_that_fails_ends_the_others() -> None:
    """What one clone's thread raises is raised to who waits, and clones that wait for it are let go."""

    def fail(clone: int) -> None:
        if clone == 1 and threads.made[1] == 5:
            raise RuntimeError("clone 1 is ill")

    with Training(counter(update__staleness="2"), ONES) as training:
        threads = threads_of(training, fail)
        with pytest.raises(RuntimeError, match="clone 1 is ill"):
            make(threads, 10_000)
        assert training.values()["global_step"] == sum(threads.made)


def test_the_clones_settle_when_asked() -> None:
    """When it is settled no clone is at work, what was begun has ended, and a later call goes on."""
    with Training(counter(), ONES) as training, closing(threads_of(training)) as threads:
        threads.allow(1_000)
        taken = [threads.result() for _ in range(20)]
        taken += threads.settle()
        assert training.values()["global_step"] == len(taken) == threads.begun
        make(threads, 1_000)
        assert training.values()["global_step"] == 1_000


@pytest.mark.family(every=8)
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
    """Train a single tower for each clone on its stretches of the data, handing the weights to and fro."""
    state: dict[str, Any] = {}
    starts = np.cumsum([0, *sizes])
    with ExitStack() as stack:
        towers = []
        for size, start in zip(sizes, starts, strict=False):
            rows = [turn * sum(sizes) + start + at for turn in range(4) for at in range(size)]
            spec = classifier(clones=1, batch=size, optimizer=optimizer, model__regularize="L2(1e-2)")
            own = {name: array[rows] for name, array in data.items()}
            towers.append(stack.enter_context(Training(spec, own)))
        for _ in range(4):
            for tower in towers:
                tower.assign(state)
                tower.steps(1)
                state = tower.values()
    return state


def test_losses_and_metrics_of_a_loop_are_those_of_the_clones_batch() -> None:
    """A clone's loop tells the loss and the metric states of the batch that it drew from the stream."""
    data = examples(16)
    with Training(classifier(clones=2, batch=8, update__mode="async"), data) as training:
        loop = training.compiled.train_loops[1]
        assert (loop.clone, loop.batch, loop.loss.name) == (1, 8, "clone_1/metrics/loss:0")
        clone = training.compiled.clones[1]
        states = list(loop.metrics["accuracy"].states)
        loss, outputs, (right, seen) = training.session.run([loop.data_loss, clone.outputs, states])
    assert seen == 8
    assert right == (outputs.argmax(axis=1) == data["digit"][:8]).sum()  # the first to draw
    picked = outputs[np.arange(8), data["digit"][:8]]
    assert loss == pytest.approx((np.log(np.exp(outputs).sum(axis=1)) - picked).mean(), rel=1e-5)
