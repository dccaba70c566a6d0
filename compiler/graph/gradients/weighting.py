"""Losses that are means over the positions that are not masked, which may be shared by several clones.

For a part of the loss with a weight, values, weights and gradients are summed over clones, and divided after
that. Only then does a position count the same in every clone, micro-batch and worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from attrs import frozen

from compiler.graph.assembly import Assembly
from compiler.graph.stamp.stamp import StampedTower

SCOPE = "weights"


@frozen
class LossSum:
    """A part of the loss, averaged over towers by their shares.

    Attributes:
        value: The part, or the dividend if there is a weight.
        weight: The divisor, or None. If it is zero, the part is zero.
    """

    value: tf.Tensor
    weight: tf.Tensor | None = None

    @property
    def tensors(self) -> tuple[tf.Tensor, ...]:
        """The tensors that may be added up over workers."""
        return (self.value,) if self.weight is None else (self.value, self.weight)

    @property
    def mean(self) -> tf.Tensor:
        """Return the value of the part, made on the current device."""
        return self.value if self.weight is None else tf.math.divide_no_nan(self.value, self.weight)


def loss_sums(towers: Sequence[StampedTower], share: Callable[[StampedTower], float]) -> list[LossSum]:
    """Return the parts of the loss over towers, made on the current device.

    Args:
        towers: The towers.
        share: Returns the factor on the losses of a tower.
    """
    parts = towers[0].template.losses
    names = ["data_loss" if len(parts) == 1 and part.weight is None else "values" for part in parts]

    def summed(tensors: Sequence[str], name: str) -> tf.Tensor:
        return tf.add_n(
            [
                tf.multiply(each.tensor(tensor), share(each), name=f"{name}_of_clone_{each.tower.index}")
                for each, tensor in zip(towers, tensors, strict=True)
            ],
            name,
        )

    found = []
    for at, (part, name) in enumerate(zip(parts, names, strict=True)):
        own = [each.template.losses[at] for each in towers]
        value = summed([each.value for each in own], name)
        weights = [each.weight for each in own if each.weight is not None]
        found.append(LossSum(value, None if part.weight is None else summed(weights, "weights")))
    return found


def data_loss(sums: Sequence[LossSum], name: str) -> tf.Tensor:
    """Return the sum of the parts of a loss, made on the current device.

    Args:
        sums: The parts of the loss, of which there is at least one.
        name: The name of the op that adds them.
    """
    if len(sums) == 1 and sums[0].weight is None:
        return sums[0].value
    return tf.add_n([each.mean for each in sums], name=name)


def tower_loss(tower: StampedTower) -> tf.Tensor:
    """Return a tower's loss over its own batch, made on the current device."""
    return data_loss(tower_losses(tower), f"clone_{tower.tower.index}/own")


def tower_losses(tower: StampedTower) -> list[LossSum]:
    """Return the parts of a tower's loss over its own batch."""
    return [
        LossSum(tower.tensor(each.value), None if each.weight is None else tower.tensor(each.weight))
        for each in tower.template.losses
    ]


def inverse_weights(weights: Sequence[tf.Tensor | None]) -> list[tf.Tensor | None]:
    """Return one over each weight, and zero for a weight of zero, made on the current device."""
    return [None if each is None else tf.math.divide_no_nan(tf.ones_like(each), each) for each in weights]


def own_inverses(assembly: Assembly) -> list[tf.Tensor | None]:
    """Return for each part of the loss the factor on the sum of the towers' gradients.

    It is one over the part's weight in all towers of an assembly, or None if there is nothing to divide by.
    """
    parts = assembly.towers[0].template.losses
    if assembly.plan.update.reduce == "sum" or all(part.weight is None for part in parts):
        return [None] * len(parts)
    with assembly.ledger.place(assembly.step_place, "update"), tf.name_scope(f"{assembly.scope}/{SCOPE}/"):
        sums = loss_sums(assembly.towers, lambda each: assembly.shares[each.tower.index])
        return inverse_weights([each.weight for each in sums])
