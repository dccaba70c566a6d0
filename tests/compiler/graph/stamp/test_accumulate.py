"""Accumulation over micro-batches is a batch so many times as large, in the memory of one of them."""

from functools import cache
from typing import Any

import numpy as np
import pytest

from compiler.graph.inspect.one_step import read_assigned
from compiler.graph.inspect.placement_map import map_placement
from tests.models import data, model, train
from tests.support import Training, largest_difference
from tfdeploy.runtime.session.engine import peak_of_tensors

ROUNDING = 1e-5


SETTINGS: dict[str, Any] = {
    "optimizer": "Adam(0.01)",
    "update__ema": "0.9",
    "update__clip": "global_norm(0.5)",
}


@cache
def one_large_batch(kind: str) -> tuple[dict[str, Any], list[float]]:
    """Return what three steps of one tower on a batch of 24 end with, and the losses before each."""
    return train(model(kind, **SETTINGS), data(kind, 72), 3)


@pytest.mark.family(every=14)
@pytest.mark.parametrize("kind", ["dense", "words", "recurrent"])
@pytest.mark.parametrize(("clones", "batch", "rounds"), [(1, 8, 3), (2, 4, 3), (3, (6, 4, 2), 2)])
def test_micro_batches_are_one_large_batch(kind: str, clones: int, batch: Any, rounds: int) -> None:
    """Weights, slots, averages, losses and metrics are those of one tower on a batch of 24."""
    expected, losses = one_large_batch(kind)
    spec = model(kind, clones=clones, batch=batch, update__accumulate=str(rounds), **SETTINGS)
    found, accumulated = train(spec, data(kind, 72), 3)
    assert largest_difference(found, expected) < ROUNDING
    assert accumulated == pytest.approx(losses, rel=1e-5)
    assert found["global_step"] == 3


@pytest.mark.family(every=2)
@pytest.mark.parametrize(
    "mode", [{"update__mode": "async"}, {"update__mode": "local", "update__average_every": "2"}]
)
def test_clones_that_update_by_themselves_accumulate_too(mode: dict[str, str]) -> None:
    """Two clones with three micro-batches do what they do with a batch three times as large."""
    arrays = data("dense", 72)
    outcomes = []
    for batch, rounds in ((12, "1"), (4, "3")):
        spec = model(
            "dense", clones=2, batch=batch, update__accumulate=rounds, optimizer="Momentum(0.1)", **mode
        )
        with Training(spec, arrays) as training:
            if training.compiled.train_loops:
                assert [loop.batch for loop in training.compiled.train_loops] == [12, 12]
                for loop in (0, 1, 1):
                    training.session.run(training.compiled.train_loops[loop].train_op)
            else:
                training.steps(3)
            outcomes.append(training.values())
    assert largest_difference(outcomes[1], outcomes[0]) < ROUNDING


def test_a_loss_that_sums_over_examples_sums_over_all_micro_batches() -> None:
    """With `reduction = sum` the step and the loss told are those of all examples together."""
    arrays = data("dense")
    outcomes = []
    for clones, batch, rounds in ((1, 24, "1"), (2, (4, 8), "2")):
        spec = model("dense", clones=clones, batch=batch, optimizer="SGD(0.01)", update__accumulate=rounds)
        spec.model.loss[0].objective.call.kwargs["reduction"] = "sum"  # type: ignore[index]  # the test's own
        outcomes.append(train(spec, arrays, 2))
    assert largest_difference(outcomes[1][0], outcomes[0][0]) < ROUNDING
    assert outcomes[1][1] == pytest.approx(outcomes[0][1], rel=1e-5)


def test_metrics_are_those_of_all_micro_batches() -> None:
    """The accuracy of a step counts the examples of every micro-batch of every clone."""
    arrays = data("dense", 24)
    with Training(model("dense"), arrays) as one:
        expected = one.session.run(one.compiled.metrics["accuracy"].result)
    with Training(model("dense", clones=2, batch=3, update__accumulate="4"), arrays) as several:
        assert several.compiled.plan.global_batch == 24
        assert several.session.run(several.compiled.metrics["accuracy"].result) == pytest.approx(expected)


def test_every_micro_batch_draws_its_own_dropout_mask() -> None:
    """The same examples in every micro-batch give other losses than one mask for all would."""
    arrays = {name: np.concatenate([array] * 3) for name, array in data("dense", 8).items()}
    layers = '-> Flatten() -> Dropout(0.5, name = "drop")'
    with Training(model("dense", layers=layers, batch=8, optimizer="SGD(0)"), arrays) as one:
        single = one.steps(1)[0]
    spec = model("dense", layers=layers, batch=8, optimizer="SGD(0)", update__accumulate="3")
    with Training(spec, arrays) as training:
        first, second = training.steps(2)
    assert abs(first - single) > 1e-3
    assert first != second


def test_a_rule_for_ops_holds_inside_the_loop() -> None:
    """A part of each tower on another device computes the same, and really runs there in every round."""
    arrays, place = data("dense", 48), 'ops("hidden/*") -> cpu[2]'
    expected, _ = train(model("dense"), arrays, 2)
    spec = model("dense", clones=2, batch=3, devices=3, place=place, update__accumulate="4")
    with Training(spec, arrays) as training:
        assigned = read_assigned(training.compiled.graph, training.traced())
        training.steps(1)
        found = training.values()
    assert largest_difference(found, expected) < ROUNDING
    placement = map_placement(training.compiled, assigned)
    assert placement.misplaced == ()
    assert [op.assigned for op in placement.ops if op.name == "clone_1/hidden/MatMul"] == ["cpu[2]"]


@pytest.mark.full
def test_memory_is_that_of_one_micro_batch() -> None:
    """A step of 16 micro-batches needs little more than one of one, and far less than the large batch."""
    layers = "-> Conv2D(64, 3, activation = relu) -> GlobalAveragePooling2D()"
    peaks = [_peak(layers, batch, rounds) for batch, rounds in ((64, 1), (64, 16), (1024, 1))]
    assert peaks[1] < 1.25 * peaks[0]
    assert peaks[2] > 8 * peaks[0]


def _peak(layers: str, batch: int, rounds: int) -> int:
    """Return the most bytes of tensors that a step holds at a time, by TensorFlow's record of allocations."""
    spec = model("dense", layers=layers, batch=batch, update__accumulate=str(rounds))
    with Training(spec, data("dense", batch * rounds)) as training:
        training.steps(1)
        devices = training.traced().step_stats.dev_stats
    return peak_of_tensors([node for device in devices for node in device.node_stats])


@pytest.mark.family(every=4)
@pytest.mark.parametrize("how", ["first", "mean"])
@pytest.mark.parametrize("renorm", ["false", "true"])
def test_every_clone_moves_statistics_with_its_own_micro_batches(how: str, renorm: str) -> None:
    """Two clones with two micro-batches do what one tower does with the four from the same weights.

    With renormalisation a micro-batch is normalised by what the one before it has left, in its own clone.
    """
    layers = f'-> BatchNormalization(momentum = 0.5, renorm = {renorm}, name = "norm") -> Flatten()'
    arrays = data("normal", 48)
    spec = model("normal", layers=layers, clones=2, batch=6, update__accumulate="2", update__batch_norm=how)
    with Training(spec, arrays) as two, Training(model("normal", layers=layers, batch=6), arrays) as one:
        moving = {name for name, each in one.compiled.weights.items() if not each.trainable}
        for _ in range(2):
            state = two.values()
            two.steps(1)
            clones = [_micro_batches(one, state, moving) for _ in range(2)]
            expected = {name: (clones[0][name] + clones[1][name]) / 2 for name in clones[0]}
            expected |= {name: clones[0][name] for name in moving if how == "first"}
            found = two.values()
            assert largest_difference({name: found[name] for name in expected}, expected) < ROUNDING


def _micro_batches(one: Training, state: dict[str, Any], moving: set[str]) -> dict[str, Any]:
    """Return the weights that two micro-batches come to in the mean, and the statistics that they leave."""
    weights = {name: each for name, each in state.items() if name not in moving | {"global_step"}}
    statistics = {name: state[name] for name in moving}
    parts = []
    for _ in range(2):
        one.assign({**weights, **statistics})
        one.steps(1)
        found = one.values()
        statistics = {name: found[name] for name in moving}
        parts.append({name: found[name] for name in weights})
    return {**{name: (parts[0][name] + parts[1][name]) / 2 for name in weights}, **statistics}
