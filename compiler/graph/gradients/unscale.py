"""Divide the gradients of a step with a loss scale by the scale, and skip the step if they are not finite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf
from attrs import define, field

from compiler.graph.assembly import Assembly
from compiler.graph.gradients.copies import beside, change_copies, times, values_of
from compiler.graph.gradients.summed import SummedGradient
from compiler.graph.ledger import Ledger
from compiler.graph.loss_scale import NAME, LossScale
from compiler.reasons import Placed
from compiler.topology import Device


def unscale(
    assembly: Assembly, scale: LossScale, gradients: Sequence[SummedGradient]
) -> list[SummedGradient]:
    """Divide the gradients by the loss scale, each on the device of its variable.

    Args:
        assembly: The graph.
        scale: The scale by which the losses of the towers were multiplied.
        gradients: The sums of the gradients.

    Returns:
        The gradients of the loss itself, in the same order.
    """
    with assembly.ledger.place(scale.placed, "update"), tf.name_scope(f"{assembly.scope}/{NAME}/"):
        inverse = tf.math.reciprocal(scale.value, name="inverse")
    return [change_copies(assembly, each, NAME, lambda copy: times(copy, inverse)) for each in gradients]


def gate_of(assembly: Assembly, scale: LossScale, gradients: Sequence[SummedGradient]) -> Gate:
    """Return a gate that is open in a step with finite gradients. The scale is adjusted in every step.

    Args:
        assembly: The graph.
        scale: The scale of the loss.
        gradients: The sums of the gradients, still multiplied by the scale.
    """
    parts = []
    for each in gradients:  # all copies of a variable get the same bits
        with beside(assembly, each, NAME):
            parts.append(
                tf.reduce_all(tf.math.is_finite(values_of(assembly.made(each.copies[0]))), name="finite")
            )
    with assembly.ledger.place(scale.placed, "update"), tf.name_scope(f"{assembly.scope}/{NAME}/"):
        finite = tf.reduce_all(tf.stack(parts), name="finite")
        followed = scale.follow(finite)
    return Gate(assembly.ledger, scale.placed, assembly.scope, finite, followed)


@define
class Gate:
    """Runs ops in good steps only: those that are made within `at`, and so all ops that depend on them.

    Attributes:
        ledger: The ledger of the graph.
        placed: The place of the decision.
        scope: The name scope of the ops.
        applied: Whether the step is a good one; a boolean scalar.
        followed: Ops that run in either case.
    """

    ledger: Ledger = field(repr=False)
    placed: Placed
    scope: str
    applied: tf.Tensor
    followed: Sequence[tf.Operation]
    _switches: dict[Device, tuple[tf.Tensor, tf.Tensor]] = field(factory=dict, repr=False)

    @contextmanager
    def at(self, placed: Placed) -> Iterator[None]:
        """Create ops on the device of `placed` that run in good steps only."""
        with tf.control_dependencies([self._switch(placed)[0]]):
            yield

    def close(self, done: Sequence[tf.Operation]) -> list[tf.Operation]:
        """Return the ops that end a step; `done` are those behind the gate."""
        passed, skipped = self._switch(self.placed)
        with self.ledger.place(self.placed, "update"), tf.name_scope(f"{self.scope}/gate/"):
            with tf.control_dependencies(done):
                ended = tf.identity(passed, name="ended")
            over = tf.raw_ops.Merge(inputs=[skipped, ended], name="over").output.op
        return [over, *self.followed]

    def _switch(self, placed: Placed) -> tuple[tf.Tensor, tf.Tensor]:
        """Return two tensors on a device: one that exists in good steps, and one that exists in bad ones."""
        if placed.device not in self._switches:
            scope = tf.name_scope(f"{self.scope}/gate/{placed.device.scope}/")
            with self.ledger.place(placed, "update"), scope, tf.control_dependencies(None):
                here = tf.identity(self.applied, name="here")  # TensorFlow moves a switch to its input
                switch = tf.raw_ops.Switch(data=here, pred=here, name="switch")
                self._switches[placed.device] = (
                    tf.identity(switch.output_true, name="good"),
                    tf.identity(switch.output_false, name="bad"),
                )
        return self._switches[placed.device]
