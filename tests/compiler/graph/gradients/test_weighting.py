"""Parts of the loss over towers: means by shares, and quotients of sums if there are weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.fragments import recorded
from compiler.graph.gradients.weighting import LossSum, data_loss, inverse_weights, loss_sums, tower_loss
from compiler.step.writer import Spot
from tests.compiler.step.sums.test_sums import Bench


def towers(*losses: list[tuple[float, float | None]]) -> list[Any]:
    """Return towers whose losses have some values and weights; the name of a tensor is its number."""
    found = []
    for index, own in enumerate(losses):
        parts = [
            SimpleNamespace(value=str(value), weight=None if weight is None else str(weight))
            for value, weight in own
        ]
        found.append(
            SimpleNamespace(
                tower=SimpleNamespace(index=index),
                template=SimpleNamespace(losses=parts),
                record=lambda name: recorded(tf.constant(float(name))),
            )
        )
    return found


def spot(bench: Bench) -> Spot:
    """Return where a test writes."""
    return Spot(bench.writer, "", bench.homes[0])


def test_a_loss_is_the_mean_of_the_towers_by_their_shares() -> None:
    """A single part without a weight is the loss itself, by its name."""
    with Bench(1) as bench:
        at, both = spot(bench), towers([(8.0, None)], [(4.0, None)])
        found = loss_sums(at, both, lambda each: (0.25, 0.75)[each.tower.index])
        (part,) = found
        assert (part.weight, part.tensors, part.value.op) == (None, (part.value,), "data_loss")
        assert data_loss(at, found, "sum") is part.value
    assert bench.run(part.value) == 5.0


def test_values_and_weights_are_summed_apart() -> None:
    """The quotient is made of the sums, and is not a mean of the quotients of the towers."""
    with Bench(1) as bench:
        at, both = spot(bench), towers([(8.0, 1.0), (3.0, None)], [(4.0, 0.0), (5.0, None)])
        found = loss_sums(at, both, lambda _: 0.5)
        assert [each.weight is None for each in found] == [False, True]
        assert len(found[0].tensors) == 2
        means, whole = [each.mean(at) for each in found], data_loss(at, found, "sum")
        quotient = data_loss(at, loss_sums(at, towers([(8.0, 2.0)]), lambda _: 1.0), "quotient")
    assert bench.run([each.value for each in found]) == [6.0, 4.0]
    assert bench.run([found[0].weight, *means]) == [0.5, 12.0, 4.0]
    assert bench.run([whole, quotient]) == [16.0, 4.0]


@pytest.mark.parametrize(("loss", "expected"), [([(8.0, None)], 8.0), ([(8.0, 4.0), (1.0, None)], 3.0)])
def test_the_loss_of_a_tower_is_its_own(loss: list[tuple[float, float | None]], expected: float) -> None:
    """Without its share, whatever the others have."""
    with Bench(1) as bench:
        found = tower_loss(spot(bench), towers(loss)[0])
    assert bench.run(found) == expected


def test_nothing_is_divided_by_a_weight_of_zero() -> None:
    """A part of which masks leave nothing is zero, and so is the factor on its gradients."""
    with Bench(1) as bench:
        at, (zero, two) = spot(bench), map(recorded, (tf.constant(0.0), tf.constant(2.0)))
        mean = LossSum(two, zero).mean(at)
        none, *factors = inverse_weights(at, [None, zero, two])
        assert none is None
    assert bench.run([mean, *factors]) == [0.0, 0.0, 0.5]
