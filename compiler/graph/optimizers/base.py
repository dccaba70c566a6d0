"""What every optimizer has: slots, scalars of the step, and ops that apply a gradient.

Hyperparameters are read from Keras's own optimizer object, so names, defaults and refused values are Keras's.
TensorFlow's `ResourceApply*` kernels do the update if their arithmetic is Keras's; they hold the variable's
lock. Otherwise the rule is composed of ops that each add to a variable under its lock, so that no update of
another clone is lost.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.graph.fragments import MergedRows
from compiler.graph.tower.template import WeightInfo
from compiler.graph.variables.variables import SlotSpec
from compiler.step.record import Rows

Gradient = Any  # a tensor, or tf.IndexedSlices of an embedding
Scalars = Mapping[str, tf.Tensor]

HALVES = ("float16", "bfloat16")
"""The types of 16 bits."""


@frozen
class Optimizer:
    """An update rule.

    Attributes:
        SLOTS: The suffixes of the names of its slots, in the order in which `apply` gets them.
        FUSED: Whether one op does a dense update without weight decay.
        KERNEL: The name of that op, if it takes the rate as `lr`, the gradient as `grad`, and these:
        OPERANDS: The names that the slots have there, in their order.
        NUMBERS: The hyperparameters that it takes under Keras's names.
        IN_16_BITS: Whether it is of use for weights of 16 bits. Kernels take hyperparameters in the type of
            the weight, in which a decay of 0.999 may be 1.
        by_rows: Whether a gradient of rows is applied by ops that write these rows and no others.
        settings: Keras's optimizer object, which is only read for its hyperparameters.
        learning_rate: A number, or a function of the global step such as a Keras schedule.
        decays: Whether the weights that it updates decay by `weight_decay`, if the settings have one.
        group: The number of the group of weights that it is for, in the order of the spec.
        in_16_bits: The rule of weights of 16 bits, or None if it is this one.
    """

    SLOTS: ClassVar[tuple[str, ...]] = ()
    FUSED: ClassVar[bool] = True
    KERNEL: ClassVar[str] = ""
    OPERANDS: ClassVar[tuple[str, ...]] = ()
    NUMBERS: ClassVar[tuple[str, ...]] = ()
    IN_16_BITS: ClassVar[bool] = True
    by_rows: ClassVar[bool] = False

    settings: Any
    learning_rate: Any
    decays: bool = True
    group: int = 0
    in_16_bits: Optimizer | None = field(default=None, eq=False, repr=False)

    def for_weight(self, weight: WeightInfo, *, decays: bool) -> Optimizer:
        """Return the rule for one weight; `decays` is whether it takes part in weight decay.

        Args:
            weight: What is known of the weight.
            decays: Whether the weight takes part in weight decay.
        """
        if self.in_16_bits is not None and weight.dtype in HALVES:
            return self.in_16_bits.for_weight(weight, decays=decays)
        return self if decays == self.decays else evolve(self, decays=decays)

    @property
    def needs_whole(self) -> bool:
        """Whether the update of an element depends on other elements of its weight."""
        return False

    def slot_specs(self) -> tuple[SlotSpec, ...]:
        """Return the slots that each trainable variable needs, in the order of `slots` in `apply`."""
        return tuple(SlotSpec(each) for each in self.SLOTS)

    @property
    def slots(self) -> tuple[str, ...]:
        """The suffixes of the slots' names."""
        return tuple(each.suffix for each in self.slot_specs())

    def scalars(self, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the numbers of a step, made once for all variables; `step` is the global step (int64)."""
        own = self.own_scalars(step)
        rate = self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate
        return {"learning_rate": tf.identity(tf.cast(rate, tf.float32), name="learning_rate"), **own}

    def own_scalars(self, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the numbers of a step that not every rule has; `step` is the global step (int64)."""
        del step
        return {}

    def is_one_op(self, gradient: Gradient) -> bool:
        """Whether one op, which holds the variable's lock, does the whole update."""
        return self.FUSED and not self._decaying and not isinstance(gradient, (tf.IndexedSlices, Rows))

    @property
    def _decaying(self) -> bool:
        return self.decays and bool(self.settings.weight_decay)

    @property
    def kind(self) -> Hashable:
        """What its update depends on, apart from its settings and from types and shapes."""
        return self.decays

    def apply(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: Gradient, scalars: Scalars
    ) -> tf.Operation:
        """Return the op that ends an update.

        Args:
            handle: The handle of the variable.
            slots: The handles of its slots in the order of `slot_specs`.
            gradient: The gradient; if it is sparse, its indices are distinct.
            scalars: The numbers of the step.
        """
        change = Change(handle, slots, gradient, scalars)
        with tf.control_dependencies([self.decay(change)] if self._decaying else []):
            if isinstance(gradient, tf.IndexedSlices):
                return self.apply_sparse(change)
            return self.apply_dense(change)

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of the op `KERNEL`."""
        return {}

    def apply_dense(self, change: Change) -> tf.Operation:
        """Apply a dense gradient, and return the op that ends the update."""
        given = {"var": change.handle, "grad": change.gradient, "lr": change.rate}
        given |= zip(self.OPERANDS, change.slots, strict=False)
        given |= {each: change.number(getattr(self.settings, each)) for each in self.NUMBERS}
        return getattr(tf.raw_ops, self.KERNEL)(**given, **self.attributes, use_locking=True)

    def apply_sparse(self, change: Change) -> tf.Operation:
        """Apply the gradient of some rows, with the same result as a dense one that is zero elsewhere.

        Rules by which rows without a gradient move or decay as well must change the whole variable. For them,
        one fused pass over a dense gradient, made here beside the variable, is the least work. Other rules
        override this.
        """
        return self.apply_dense(evolve(change, gradient=dense(change.handle, change.gradient)))

    def decay(self, change: Change) -> tf.Operation:
        """Subtract `weight_decay * rate` of the weight before the update, as Keras does."""
        dtype = change.gradient.dtype
        weight = tf.raw_ops.ReadVariableOp(resource=change.handle, dtype=dtype)
        rate, decay = change.rate, change.number(self.settings.weight_decay)
        return tf.raw_ops.AssignSubVariableOp(resource=change.handle, value=weight * decay * rate)


@frozen
class Change:
    """An update of one variable, which is being written.

    Attributes:
        handle: The handle of the variable.
        slots: The handles of its slots in the order of `slot_specs`.
        gradient: The gradient: a tensor of the shape of the variable, or rows with distinct indices.
        scalars: The numbers of the step.
    """

    handle: tf.Tensor
    slots: Sequence[tf.Tensor]
    gradient: Gradient
    scalars: Scalars

    @property
    def rate(self) -> tf.Tensor:
        """The learning rate in the type of the gradient."""
        return tf.cast(self.scalars["learning_rate"], self.gradient.dtype)

    def number(self, value: float) -> tf.Tensor:
        """Return a hyperparameter as a constant of the type of the gradient."""
        return tf.constant(value, self.gradient.dtype)

    # --- gradients of rows --------------------------------------------------------------------------------

    def rows_of(self, handle: tf.Tensor) -> tf.Tensor:
        """Return the rows of a variable that the gradient has."""
        rows, indices = self.gradient.values, self.gradient.indices
        return tf.raw_ops.ResourceGather(resource=handle, indices=indices, dtype=rows.dtype)

    def scatter(self, kernel: str, handle: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
        """Change the rows of a variable that the gradient has, under its lock.

        Args:
            kernel: `Add`, `Sub` or `Update`. `ResourceScatterAdd` would share the lock with other updates.
            handle: The handle of the variable.
            rows: What the rows change by, or what they become.
        """
        indices = self.gradient.indices[:, tf.newaxis]
        op = getattr(tf.raw_ops, f"ResourceScatterNd{kernel}")
        return op(ref=handle, indices=indices, updates=rows, use_locking=True)

    def move_rows(self, slot: tf.Tensor, target: tf.Tensor, decay: float) -> tf.Tensor:
        """Move the rows of a moving average towards a target; return them as they are then.

        Args:
            slot: The handle of the moving average.
            target: The target, which has as many rows as the gradient.
            decay: What is left of the difference between both, from 0 to 1.
        """
        moved = (target - self.rows_of(slot)) * self.number(1 - decay)
        with tf.control_dependencies([self.scatter("Add", slot, moved)]):
            return self.rows_of(slot)

    def decay_rows(self, weight_decay: float) -> tf.Operation:
        """Subtract `weight_decay * rate` of the rows that the gradient has, and of no others."""
        rows = self.rows_of(self.handle)
        return self.scatter("Sub", self.handle, rows * (self.number(weight_decay) * self.rate))


def dense(handle: tf.Tensor, gradient: tf.IndexedSlices) -> tf.Tensor:
    """Return a sparse gradient with distinct indices as a tensor of the shape of its variable.

    Args:
        handle: The handle of the variable.
        gradient: The gradient of n rows, none of them twice.
    """
    rows = gradient.merged if isinstance(gradient, MergedRows) else None
    shape = tf.raw_ops.VariableShape(input=handle, out_type=tf.int64)
    if rows is not None:
        found = tf.math.unsorted_segment_sum(rows.values, rows.indices, shape[0])
    else:
        found = tf.scatter_nd(tf.cast(gradient.indices, tf.int64)[:, tf.newaxis], gradient.values, shape)
    if handle.op.type == "VarHandleOp":
        found.set_shape(tf.TensorShape(handle.op.get_attr("shape")))  # for the forecasts of time and bytes
    return found
