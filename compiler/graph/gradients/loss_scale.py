"""Dynamic loss scaling for float16, with the figures of Keras's LossScaleOptimizer.

The loss is multiplied by a scale before it is differentiated, so that small gradients do not vanish in 16
bits, and the gradients are divided by it again. A step whose gradients are not finite is skipped: nothing
changes but the scale, which is halved; the global step does not count it. After so many good steps on end
the scale is doubled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.gradients.copies import beside, change_copies, times, values_of
from compiler.graph.ledger import Ledger
from compiler.graph.variables.variables import create_variable
from compiler.reasons import Placed
from compiler.topology import Device

if TYPE_CHECKING:
    from compiler.graph.assembly import Assembly
    from compiler.graph.gradients.summed import SummedGradient

INITIAL_SCALE = 2.0**15
GROWTH_STEPS = 2000
NAME = "loss_scale"


@frozen
class LossScale:
    """The scale, and how many good steps on end there were since it last changed; both are saved.

    `value` is the scale as it was read for this step, by the towers and for undoing it alike.
    """

    scale: Any
    good_steps: Any
    value: tf.Tensor = field(repr=False)
    placed: Placed = field(repr=False)
    ledger: Ledger = field(repr=False)

    @classmethod
    def create(cls, placed: Placed, ledger: Ledger) -> LossScale:
        """Make the variables where the global step is."""
        scale = create_variable(NAME, lambda: tf.constant(INITIAL_SCALE, tf.float32), placed, ledger)
        good = create_variable(f"{NAME}/good_steps", lambda: tf.constant(0, tf.int64), placed, ledger)
        with ledger.place(placed, "read"):
            value = tf.raw_ops.ReadVariableOp(resource=scale.handle, dtype=tf.float32, name=f"{NAME}/read")
        return cls(scale, good, value, placed, ledger)

    def saved(self) -> dict[str, Any]:
        """Return the variables of a checkpoint by name."""
        return {NAME: self.scale, f"{NAME}/good_steps": self.good_steps}

    def times(self, share: float) -> tf.Tensor:
        """Return the factor on a tower's loss: its share, and the scale."""
        with self.ledger.place(self.placed, "update"), tf.name_scope(f"{NAME}/"):
            return tf.multiply(self.value, share, name="factor")

    def undo(self, assembly: Assembly, gradients: Sequence[SummedGradient]) -> list[SummedGradient]:
        """Divide the gradients by the scale, beside their variables."""
        with self.ledger.place(self.placed, "update"), tf.name_scope(f"{assembly.scope}/{NAME}/"):
            inverse = tf.math.reciprocal(self.value, name="inverse")
        return [change_copies(assembly, each, NAME, lambda copy: times(copy, inverse)) for each in gradients]

    def gate(self, assembly: Assembly, gradients: Sequence[SummedGradient]) -> Gate:
        """Return the gate that is open in a step with finite `gradients`, and let the scale follow."""
        parts = []
        for each in gradients:  # all copies of a variable get the same bits
            with beside(assembly, each, NAME):
                parts.append(tf.reduce_all(tf.math.is_finite(values_of(each.copies[0])), name="finite"))
        with self.ledger.place(self.placed, "update"), tf.name_scope(f"{assembly.scope}/{NAME}/"):
            finite = tf.reduce_all(tf.stack(parts), name="finite")
            followed = self._follow(finite)
        return Gate(self.ledger, self.placed, assembly.scope, finite, followed)

    def _follow(self, finite: tf.Tensor) -> list[tf.Operation]:
        """Halve the scale after a bad step, double it after enough good ones."""
        good = tf.raw_ops.ReadVariableOp(resource=self.good_steps.handle, dtype=tf.int64)
        grown = tf.equal(good, GROWTH_STEPS - 1)
        factor = tf.where(finite, tf.where(grown, 2.0, 1.0), 0.5)
        count = tf.where(tf.logical_and(finite, tf.logical_not(grown)), good + 1, tf.zeros_like(good))
        return [
            tf.raw_ops.AssignVariableOp(resource=self.scale.handle, value=self.value * factor),
            tf.raw_ops.AssignVariableOp(resource=self.good_steps.handle, value=count),
        ]


@define
class Gate:
    """Lets ops run in good steps only: those made within `at`, which includes all that depend on them.

    `applied` says whether the step was a good one. `followed` are ops that run in either case.
    """

    ledger: Ledger = field(repr=False)
    placed: Placed
    scope: str
    applied: tf.Tensor
    followed: Sequence[tf.Operation]
    _switches: dict[Device, tuple[tf.Tensor, tf.Tensor]] = field(factory=dict, repr=False)

    @contextmanager
    def at(self, placed: Placed) -> Iterator[None]:
        """Let the ops made inside, on the device of `placed`, run in good steps only."""
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
        """Return on a device what is there in good steps, and what is there in bad ones."""
        if placed.device not in self._switches:
            scope = tf.name_scope(f"{self.scope}/gate/")
            with self.ledger.place(placed, "update"), scope, tf.control_dependencies(None):
                here = tf.identity(self.applied, name="here")  # TensorFlow moves a switch to its input
                switch = tf.raw_ops.Switch(data=here, pred=here, name="switch")
                self._switches[placed.device] = (
                    tf.identity(switch.output_true, name="good"),
                    tf.identity(switch.output_false, name="bad"),
                )
        return self._switches[placed.device]
