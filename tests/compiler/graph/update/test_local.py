"""Local training: clones apart between two averagings, and equal after one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dsl import ir
from tests.graphs import graph_of
from tests.support import Training, classifier, examples, largest_difference, spec_of

STEPS, EVERY = 5, 2


def local(clones: int, batch: Any, **overrides: str) -> ir.Spec:
    """Return the classifier in local mode, averaged every other step."""
    settings = {
        "optimizer": "Adam(1e-2)",
        "update__mode": "local",
        "update__average_every": str(EVERY),
        "model__regularize": "L2(1e-2)",
    }
    return classifier(clones=clones, batch=batch, **{**settings, **overrides})


def apart(data: dict[str, Any], sizes: tuple[int, ...], steps: int, *, slots: bool) -> dict[str, Any]:
    """Train a session of a single tower for each clone; average them in NumPy, by their shares."""
    total = sum(sizes)
    starts = np.cumsum([0, *sizes])
    towers = []
    for size, start in zip(sizes, starts, strict=False):
        rows = [step * total + start + at for step in range(steps) for at in range(size)]
        piece = {name: array[rows] for name, array in data.items()}
        spec = classifier(clones=1, batch=size, optimizer="Adam(1e-2)", model__regularize="L2(1e-2)")
        towers.append(Training(spec, piece))
    for step in range(1, steps + 1):
        for tower in towers:
            tower.steps(1)
        if step % EVERY == 0:
            names = None if slots else set(towers[0].compiled.weights)
            mean = _mean(towers, sizes, names)
            for tower in towers:
                tower.assign(mean)
    found = {**towers[0].values(), **_mean(towers, sizes, set(towers[0].compiled.weights))}
    for tower in towers:
        tower.session.close()
    return found


def _mean(towers: list[Training], sizes: tuple[int, ...], names: set[str] | None) -> dict[str, Any]:
    values = [tower.values() for tower in towers]
    return {
        name: sum(each[name] * (size / sum(sizes)) for each, size in zip(values, sizes, strict=True))
        for name in values[0]
        if name != "global_step" and (names is None or name in names)
    }


def published(training: Training) -> dict[str, Any]:
    """Return what would be saved now."""
    training.session.run(training.compiled.publish_op)
    return training.values()


@pytest.mark.family(every=6)
@pytest.mark.parametrize("slots", [False, True], ids=["slots-kept", "slots-averaged"])
@pytest.mark.parametrize("sizes", [(6, 6), (9, 5, 6)], ids=["equal", "unequal"])
def test_clones_train_apart_and_are_averaged(sizes: tuple[int, ...], *, slots: bool) -> None:
    """After an odd number of steps the mean of the copies is that of single towers averaged in NumPy."""
    data = examples(sum(sizes) * STEPS)
    expected = apart(data, sizes, STEPS, slots=slots)
    with Training(local(len(sizes), sizes, update__average_slots=str(slots).lower()), data) as training:
        training.steps(STEPS)
        found = published(training)
    assert largest_difference(found, expected) < 1e-5
    assert found["global_step"] == STEPS


@pytest.fixture(scope="module")
def graph() -> Iterator[Training]:
    """A graph of three clones, which each test that has it starts anew."""
    with Training(local(3, 8), examples(24 * 3)) as training:
        yield training


@pytest.fixture
def three(graph: Training) -> Training:
    """Three clones before their first step."""
    return graph.restart()


def test_copies_are_equal_after_an_averaging_and_only_then(three: Training) -> None:
    """After step 2 every clone has the same weights bit for bit, after step 3 weights of its own."""
    copies = three.compiled.variables["logits/kernel"].copies
    three.steps(2)
    first, *others = three.session.run(copies)
    assert all(np.array_equal(first, each) for each in others)
    three.steps(1)
    first, *others = three.session.run(copies)
    assert not any(np.array_equal(first, each) for each in others)


def test_evaluation_reads_the_mean_and_changes_no_copy(three: Training) -> None:
    """Publishing writes the mean of the copies where evaluation reads, and training goes on unmoved."""
    runs = []
    for publish in (False, True):
        three.restart()
        for _ in range(3):
            three.steps(1)
            if publish:
                published(three)
        copies = three.session.run(three.compiled.variables["logits/kernel"].copies)
        runs.append((copies, published(three)["logits/kernel"]))
    assert np.array_equal(runs[0][0], runs[1][0])
    assert runs[1][1] == pytest.approx(np.mean(runs[1][0], axis=0), abs=1e-6)


@pytest.mark.family(every=2)
@pytest.mark.parametrize("kept", ["first", "mean"])
def test_statistics_of_the_clones(kept: str) -> None:
    """Moving means are those of clone 0's batches, or the mean over the clones, as `batch_norm` asks."""
    data = examples(16)
    layers = "-> BatchNormalization(momentum = 0.9)"
    overrides = {"layers": layers, "update__batch_norm": kept, "update__average_every": "1"}
    with Training(local(2, 8, **overrides), data) as training:
        training.steps(1)
        moved = published(training)["batch_normalization/moving_mean"]
        copies = training.session.run(training.compiled.variables["batch_normalization/moving_mean"].copies)
    means = [data["image"][at : at + 8].mean(axis=(0, 1, 2)) for at in (0, 8)]
    expected = 0.1 * (means[0] if kept == "first" else np.mean(means, axis=0))
    assert moved == pytest.approx(expected, rel=1e-5)
    assert all(each == pytest.approx(expected, rel=1e-5) for each in copies)


def test_copies_live_where_a_rule_puts_the_variable() -> None:
    """Without a rule each clone has its copy on its own device; a rule for variables holds for all copies."""
    spec = local(2, 8)
    own = graph_of(spec).variables["logits/kernel"]
    assert [own.device_of(copy).ref for copy in range(2)] == ["cpu[0]", "cpu[1]"]
    text = 'tfdeploy = 1\nmodel "m" { x = input(float32, [2]), y = input(float32, [1])\n'
    text += '  z = x -> Dense(1, name = "z")\n  loss = [y, z] -> MeanSquaredError() }\n'
    text += "devices { cpu = 2 }\nplace { clones -> cpu[*], variables -> cpu[1] }\n"
    text += "update { mode = local, average_every = 3, optimizer = SGD(0.1) }\n"
    ruled = graph_of(spec_of(text)).variables["z/kernel"]
    assert [ruled.device_of(copy).ref for copy in range(2)] == ["cpu[1]", "cpu[1]"]
