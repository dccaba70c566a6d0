"""Divide the gradients of a step with a loss scale by the scale, and skip the step if they are not finite."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from attrs import define, field

from compiler.graph.assembly import Assembly
from compiler.graph.fragments import write_traced
from compiler.graph.gradients.summed import SummedGradient, beside, change_copies
from compiler.graph.ledger import Ledger
from compiler.graph.loss_scale import NAME, LossScale
from compiler.reasons import Placed
from compiler.step.record import Tensor
from compiler.step.values import values_of
from compiler.step.writer import Spot
from compiler.topology import Device


def unscale(
    assembly: Assembly, scale: LossScale, gradients: Sequence[SummedGradient]
) -> list[SummedGradient]:
    """Divide the gradients by the loss scale, each on the device of its variable, in the same order."""
    (inverse,) = _at(assembly, scale).op("Reciprocal", "inverse", scale.value)
    return [
        change_copies(assembly, each, NAME, lambda at, values: at.times(values, inverse))
        for each in gradients
    ]


def gate_of(assembly: Assembly, scale: LossScale, gradients: Sequence[SummedGradient]) -> Gate:
    """Return a gate that is open in a step with finite gradients. The scale is adjusted in every step."""
    return gate_if(assembly, scale, are_finite(assembly, scale, gradients))


def are_finite(assembly: Assembly, scale: LossScale, gradients: Sequence[SummedGradient]) -> Tensor:
    """Return whether all elements of gradients are finite; a boolean scalar."""
    parts = [  # all copies of a variable get the same bits
        write_traced(beside(assembly, each, NAME), _finite, values_of(each.copies[0])) for each in gradients
    ]
    return write_traced(_at(assembly, scale), _all, parts)


def gate_if(assembly: Assembly, scale: LossScale, finite: Tensor) -> Gate:
    """Return a gate that is open if gradients are finite. The scale is adjusted in either case."""
    followed = scale.follow(_at(assembly, scale), finite)
    return Gate(assembly.ledger, scale.placed, assembly.scope, finite, followed)


def _at(assembly: Assembly, scale: LossScale) -> Spot:
    return Spot(assembly.ledger.writer("update"), f"{assembly.scope}/{NAME}", scale.placed)


def _finite(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_all(tf.math.is_finite(values), name="finite")


def _all(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.reduce_all(tf.stack(parts), name="finite")


@define
class Gate:
    """Runs ops in good steps only: those that wait for what `at` returns, and so all that depend on them."""

    ledger: Ledger = field(repr=False)
    placed: Placed
    scope: str
    applied: Tensor
    followed: Sequence[str]
    _switches: dict[Device, tuple[Tensor, Tensor]] = field(factory=dict, repr=False)

    def at(self, placed: Placed) -> list[str]:
        """Return the names of ops on the device of `placed` that run in good steps only."""
        return [self._switch(placed)[0].op]

    def close(self, done: Sequence[str]) -> list[str]:
        """Return the names of the ops that end a step; `done` are those behind the gate."""
        passed, skipped = self._switch(self.placed)
        at = Spot(self.ledger.writer("update"), f"{self.scope}/gate", self.placed)
        (ended,) = at.waiting(done).op("Identity", "ended", passed)
        return [at.run("Merge", "over", skipped, ended), *self.followed]

    def _switch(self, placed: Placed) -> tuple[Tensor, Tensor]:
        """Return two tensors on a device: one that exists in good steps, and one that exists in bad ones."""
        if placed.device not in self._switches:
            at = Spot(self.ledger.writer("update"), f"{self.scope}/gate/{placed.device.scope}", placed)
            (here,) = at.op("Identity", "here", self.applied)  # TensorFlow moves a switch to its input
            bad, good = at.op("Switch", "switch", here, here)
            self._switches[placed.device] = (
                at.op("Identity", "good", good)[0],
                at.op("Identity", "bad", bad)[0],
            )
        return self._switches[placed.device]
