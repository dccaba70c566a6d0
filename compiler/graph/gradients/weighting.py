"""Losses that are means over the positions that are not masked, which may be shared by several clones.

For a part of the loss with a weight, values, weights and gradients are summed over clones, and divided after
that. Only then does a position count the same in every clone, micro-batch and worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from attrs import frozen

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.stamp.stamp import StampedTower
from compiler.step.record import Tensor
from compiler.step.writer import Spot
from dsl import ir

SCOPE = "weights"


@frozen
class LossSum:
    """A part of the loss, averaged over towers by their shares."""

    value: Any  # the part, or the dividend if there is a weight
    # The divisor, or None. If it is zero, the part is zero.
    weight: Any = None

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The tensors that may be added up over workers."""
        return (self.value,) if self.weight is None else (self.value, self.weight)

    def mean(self, at: Spot) -> Tensor:
        """Return the value of the part."""
        found: Tensor = self.value
        return found if self.weight is None else at.op("DivNoNan", "div_no_nan", *self.tensors)[0]


def loss_sums(
    at: Spot, towers: Sequence[StampedTower], share: Callable[[StampedTower], float]
) -> list[LossSum]:
    """Write the parts of the loss over towers."""
    parts = towers[0].template.losses
    names = ["data_loss" if len(parts) == 1 and part.weight is None else "values" for part in parts]

    def summed(tensors: Sequence[str], name: str) -> Tensor:
        shares = [
            at.op("Mul", f"{name}_of_clone_{each.tower.index}", each.record(tensor), share(each))[0]
            for each, tensor in zip(towers, tensors, strict=True)
        ]
        return at.sum(name, shares)

    found = []
    for number, (part, name) in enumerate(zip(parts, names, strict=True)):
        own = [each.template.losses[number] for each in towers]
        value = summed([each.value for each in own], name)
        weights = [each.weight for each in own if each.weight is not None]
        found.append(LossSum(value, None if part.weight is None else summed(weights, "weights")))
    return found


def scores_of_step(losses: Sequence[LossSum], states: Sequence[Tensor]) -> list[Tensor]:
    """Return what workers report of a step: the tensors of the parts of the loss, and states of metrics."""
    return [*(tensor for each in losses for tensor in each.tensors), *states]


def data_loss(at: Spot, sums: Sequence[LossSum], name: str) -> Tensor:
    """Write the sum of the parts of a loss."""
    if len(sums) == 1 and sums[0].weight is None:
        return sums[0].value
    return at.sum(name, [each.mean(at) for each in sums])


def tower_loss(at: Spot, tower: StampedTower) -> Tensor:
    """Write a tower's loss over its own batch."""
    return data_loss(at, tower_losses(tower), f"clone_{tower.tower.index}/own")


def tower_losses(tower: StampedTower) -> list[LossSum]:
    """Return the parts of a tower's loss over its own batch."""
    return [
        LossSum(tower.record(each.value), None if each.weight is None else tower.record(each.weight))
        for each in tower.template.losses
    ]


def inverse_weights(at: Spot, weights: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Write one over each weight, and zero for a weight of zero; None stays None."""
    return [None if each is None else write_traced(at, _inverse, each) for each in weights]


def inverses_of(at: Spot, losses: Sequence[LossSum], update: ir.Update) -> list[Tensor | None]:
    """Write the factors on the sums of each part of the loss: one over its weight, if it has one."""
    if update.reduce == "sum":
        return [None] * len(losses)
    return inverse_weights(at, [each.weight for each in losses])


def _inverse(weight: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(tf.ones_like(weight), weight)


def own_inverses(assembly: Assembly) -> list[Tensor | None]:
    """Return for each part of the loss the factor on the sum of the towers' gradients.

    It is one over the part's weight in all towers of an assembly, or None if there is nothing to divide by.
    """
    parts = assembly.towers[0].template.losses
    if assembly.plan.update.reduce == "sum" or all(part.weight is None for part in parts):
        return [None] * len(parts)
    at = Spot(assembly.ledger.writer("update"), f"{assembly.scope}/{SCOPE}", assembly.step_place)
    sums = loss_sums(at, assembly.towers, lambda each: assembly.shares[each.tower.index])
    return inverses_of(at, sums, assembly.plan.update)
