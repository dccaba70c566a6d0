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
from attrs import evolve, frozen

from compiler.graph.fragments import MergedRows
from compiler.graph.tower.template import WeightInfo
from compiler.graph.variables.variables import SlotSpec
from compiler.step.record import Rows

Gradient = Any  # a tensor, or tf.IndexedSlices of an embedding
Scalars = Mapping[str, tf.Tensor]


@frozen
class Optimizer:
    """An update rule.

    Attributes:
        SLOTS: The suffixes of the names of its slots, in the order in which `apply` gets them.
        FUSED: Whether one op does a dense update without weight decay.
        settings: Keras's optimizer object, which is only read for its hyperparameters.
        learning_rate: A number, or a function of the global step such as a Keras schedule.
        decays: Whether the weights that it updates decay by `weight_decay`, if the settings have one.
        group: The number of the group of weights that it is for, in the order of the spec.
    """

    SLOTS: ClassVar[tuple[str, ...]] = ()
    FUSED: ClassVar[bool] = True

    settings: Any
    learning_rate: Any
    decays: bool = True
    group: int = 0

    def for_weight(self, weight: WeightInfo, *, decays: bool) -> Optimizer:
        """Return the rule for one weight; `decays` is whether it takes part in weight decay.

        Args:
            weight: What is known of the weight.
            decays: Whether the weight takes part in weight decay.
        """
        del weight
        return self if decays == self.decays else evolve(self, decays=decays)

    @property
    def needs_whole(self) -> bool:
        """Whether the update of an element depends on other elements of its weight."""
        return False

    @property
    def by_rows(self) -> bool:
        """Whether a gradient of rows is applied by ops that write these rows of a weight, and no others."""
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
        rate = self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate
        return {"learning_rate": tf.identity(tf.cast(rate, tf.float32), name="learning_rate")}

    def is_one_op(self, gradient: Gradient) -> bool:
        """Whether one op, which holds the variable's lock, does the whole update."""
        decaying = self.decays and self.settings.weight_decay
        return self.FUSED and not decaying and not isinstance(gradient, (tf.IndexedSlices, Rows))

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
        before = self._decay_weights(handle, gradient.dtype, scalars)
        with tf.control_dependencies(before):
            if isinstance(gradient, tf.IndexedSlices):
                return self.apply_sparse(handle, slots, gradient, scalars)
            return self.apply_dense(handle, slots, gradient, scalars)

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient, and return the op that ends the update.

        Args:
            handle: The handle of the variable.
            slots: The handles of its slots in the order of `slot_specs`.
            gradient: The gradient, of the shape of the variable.
            scalars: The numbers of the step.
        """
        raise NotImplementedError

    def apply_sparse(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.IndexedSlices, scalars: Scalars
    ) -> tf.Operation:
        """Apply the gradient of some rows, with the same result as a dense one that is zero elsewhere.

        Rules by which rows without a gradient move or decay as well must change the whole variable. For them,
        one fused pass over a dense gradient, made here beside the variable, is the least work. Other rules
        override this.

        Args:
            handle: The handle of the variable.
            slots: The handles of its slots in the order of `slot_specs`.
            gradient: The gradient of some rows, whose indices are distinct.
            scalars: The numbers of the step.
        """
        return self.apply_dense(handle, slots, dense(handle, gradient), scalars)

    def _decay_weights(self, handle: tf.Tensor, dtype: Any, scalars: Scalars) -> list[tf.Operation]:
        """Subtract `weight_decay * rate` of the weight before the update, as Keras does."""
        if not self.decays or not self.settings.weight_decay:
            return []
        weight = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        rate = tf.cast(scalars["learning_rate"], dtype)
        decay = tf.constant(self.settings.weight_decay, dtype)
        return [tf.raw_ops.AssignSubVariableOp(resource=handle, value=weight * decay * rate)]

    def _decay_rows(
        self, handle: tf.Tensor, gradient: tf.IndexedSlices, scalars: Scalars
    ) -> list[tf.Operation]:
        """Subtract `weight_decay * rate` of the rows that a gradient has, and of no others."""
        if not self.decays or not self.settings.weight_decay:
            return []
        rows = rows_of(handle, gradient)
        decay = constant(self.settings.weight_decay, rows) * rate_for(gradient, scalars)
        return [scatter_sub(handle, gradient.indices, rows * decay)]


def constant(value: float, like: tf.Tensor) -> tf.Tensor:
    """Return a hyperparameter as a constant of the type of `like`.

    Args:
        value: The hyperparameter.
        like: A tensor of the type that is wanted.
    """
    return tf.constant(value, like.dtype)


def rate_for(gradient: Gradient, scalars: Scalars) -> tf.Tensor:
    """Return the learning rate in the type of a gradient.

    Args:
        gradient: The gradient, a tensor or IndexedSlices.
        scalars: The scalars of the step, which have the learning rate.
    """
    return tf.cast(scalars["learning_rate"], gradient.dtype)


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


def scatter_add(handle: tf.Tensor, indices: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
    """Add rows to a variable under its lock, which `ResourceScatterAdd` would share with other updates.

    Args:
        handle: The handle of the variable.
        indices: The numbers of the rows, an int tensor of shape [n].
        rows: What is added, of shape [n, ...].
    """
    return tf.raw_ops.ResourceScatterNdAdd(
        ref=handle, indices=indices[:, tf.newaxis], updates=rows, use_locking=True
    )


def scatter_sub(handle: tf.Tensor, indices: tf.Tensor, rows: tf.Tensor) -> tf.Operation:
    """Subtract rows from a variable under its lock.

    Args:
        handle: The handle of the variable.
        indices: The numbers of the rows, an int tensor of shape [n].
        rows: What is subtracted, of shape [n, ...].
    """
    return tf.raw_ops.ResourceScatterNdSub(
        ref=handle, indices=indices[:, tf.newaxis], updates=rows, use_locking=True
    )


def rows_of(handle: tf.Tensor, gradient: tf.IndexedSlices) -> tf.Tensor:
    """Return the rows of a variable that a gradient has.

    Args:
        handle: The handle of the variable.
        gradient: The gradient of n rows, which has their numbers.

    Returns:
        The rows as they are in the variable, of shape [n, ...].
    """
    return tf.raw_ops.ResourceGather(resource=handle, indices=gradient.indices, dtype=gradient.values.dtype)


def move_rows(slot: tf.Tensor, gradient: tf.IndexedSlices, target: tf.Tensor, decay: float) -> tf.Tensor:
    """Move the rows of a moving average that a gradient has towards a target.

    Args:
        slot: The handle of the moving average.
        gradient: The gradient of n rows, which has their numbers.
        target: What the rows move towards, of shape [n, ...].
        decay: The share of the old rows that is kept.

    Returns:
        The new rows, of shape [n, ...].
    """
    change = (target - rows_of(slot, gradient)) * constant(1 - decay, target)
    with tf.control_dependencies([scatter_add(slot, gradient.indices, change)]):
        return rows_of(slot, gradient)


def set_rows(handle: tf.Tensor, gradient: tf.IndexedSlices, rows: tf.Tensor) -> tf.Operation:
    """Assign the rows of a variable that a gradient has, under the lock of the variable.

    Args:
        handle: The handle of the variable.
        gradient: The gradient of n rows, which has their numbers.
        rows: The new rows, of shape [n, ...].
    """
    return tf.raw_ops.ResourceScatterNdUpdate(
        ref=handle, indices=gradient.indices[:, tf.newaxis], updates=rows, use_locking=True
    )
