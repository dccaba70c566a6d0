"""Parts of the loss over towers: means by shares, and quotients of sums if there are weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from compiler.graph.gradients.weighting import LossSum, data_loss, inverse_weights, loss_sums, tower_loss


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
                tensor=lambda name: tf.constant(float(name)),
            )
        )
    return found


def run(tensors: Any) -> Any:
    """Return the values of tensors of the current graph."""
    with tf.compat.v1.Session() as session:
        return session.run(tensors)


def test_a_loss_is_the_mean_of_the_towers_by_their_shares() -> None:
    """A single part without a weight is the loss itself, by its name."""
    with tf.Graph().as_default():
        found = loss_sums(towers([(8.0, None)], [(4.0, None)]), lambda each: (0.25, 0.75)[each.tower.index])
        (part,) = found
        assert (part.weight, part.tensors, part.value.op.name) == (None, (part.value,), "data_loss")
        assert data_loss(found, "sum") is part.value
        assert run(part.value) == 5.0


def test_values_and_weights_are_summed_apart() -> None:
    """The quotient is made of the sums, and is not a mean of the quotients of the towers."""
    with tf.Graph().as_default():
        found = loss_sums(towers([(8.0, 1.0), (3.0, None)], [(4.0, 0.0), (5.0, None)]), lambda _: 0.5)
        assert [each.weight is None for each in found] == [False, True]
        assert len(found[0].tensors) == 2
        assert run([each.value for each in found]) == [6.0, 4.0]
        assert run([found[0].weight, found[0].mean, found[1].mean]) == [0.5, 12.0, 4.0]
        assert run(data_loss(found, "sum")) == 16.0
        one = loss_sums(towers([(8.0, 2.0)]), lambda _: 1.0)
        assert run(data_loss(one, "quotient")) == 4.0


@pytest.mark.parametrize(("loss", "expected"), [([(8.0, None)], 8.0), ([(8.0, 4.0), (1.0, None)], 3.0)])
def test_the_loss_of_a_tower_is_its_own(loss: list[tuple[float, float | None]], expected: float) -> None:
    """Without its share, whatever the others have."""
    with tf.Graph().as_default():
        assert run(tower_loss(towers(loss)[0])) == expected


def test_nothing_is_divided_by_a_weight_of_zero() -> None:
    """A part of which masks leave nothing is zero, and so is the factor on its gradients."""
    with tf.Graph().as_default():
        zero, two = tf.constant(0.0), tf.constant(2.0)
        assert run(LossSum(two, zero).mean) == 0.0
        none, *factors = inverse_weights([None, zero, two])
        assert none is None
        assert run(factors) == [0.0, 0.5]
