"""What every optimizer has: slots, scalars of the step, and a fused op that applies a gradient.

Hyperparameters are read from Keras's own optimizer object, so names, defaults and refusals are Keras's.
TensorFlow's `ResourceApply*` kernels do the update: they are atomic on the variable's device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.network import first_sentence, make
from compiler.graph.variables import SlotSpec
from dsl import ir
from dsl.diagnostics import SpecError
from dsl.errors import plan as errors

Gradient = Any  # a tensor, or tf.IndexedSlices of an embedding
Scalars = Mapping[str, tf.Tensor]


@frozen
class Optimizer:
    """An update rule.

    `settings` is Keras's optimizer object, read for its hyperparameters and never run; `learning_rate` is a
    number or a Keras schedule.
    """

    slots: ClassVar[tuple[str, ...]] = ()

    settings: Any
    learning_rate: Any

    def slot_specs(self) -> tuple[SlotSpec, ...]:
        """Return the slots that each trainable variable needs."""
        return tuple(SlotSpec(each) for each in self.slots)

    def scalars(self, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the numbers of a step, made once for all variables; `step` is the global step (int64)."""
        rate = self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate
        return {"learning_rate": tf.identity(tf.cast(rate, tf.float32), name="learning_rate")}

    def apply(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: Gradient, scalars: Scalars
    ) -> tf.Operation:
        """Return the op that applies a gradient; `slots` are handles in the order of the class."""
        if isinstance(gradient, tf.IndexedSlices):
            return self.apply_sparse(handle, slots, gradient, scalars)
        return self.apply_dense(handle, slots, gradient, scalars)

    def apply_dense(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.Tensor, scalars: Scalars
    ) -> tf.Operation:
        """Apply a dense gradient."""
        raise NotImplementedError

    def apply_sparse(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: tf.IndexedSlices, scalars: Scalars
    ) -> tf.Operation:
        """Apply the gradient of some rows; the indices are distinct."""
        raise NotImplementedError


def constant(value: float, like: tf.Tensor) -> tf.Tensor:
    """Return a hyperparameter as a constant of the type of `like`."""
    return tf.constant(value, like.dtype)


def decay_and_scatter(slot: tf.Tensor, decay: tf.Tensor, indices: tf.Tensor, addends: tf.Tensor) -> tf.Tensor:
    """Multiply a slot by `decay`, add `addends` to its rows at `indices`, and return the new value."""
    old = tf.raw_ops.ReadVariableOp(resource=slot, dtype=addends.dtype)
    decayed = tf.raw_ops.AssignVariableOp(resource=slot, value=decay * old)
    with tf.control_dependencies([decayed]):
        added = tf.raw_ops.ResourceScatterAdd(resource=slot, indices=indices, updates=addends)
    with tf.control_dependencies([added]):
        return tf.raw_ops.ReadVariableOp(resource=slot, dtype=addends.dtype)


def make_optimizer(call: ir.Call) -> Optimizer:
    """Return the update rule for a call of the spec: `Adam(learning_rate = ...)`.

    Raises SpecError where Keras refuses an argument, or where an option has no fused op here.
    """
    from compiler.graph.optimizers.table import OPTIMIZERS

    entry = OPTIMIZERS.get(call.name)
    if entry is None:
        raise SpecError(
            [errors.not_supported_yet(f"the optimizer `{call.name}`", call.span, _listed(OPTIMIZERS))]
        )
    rule, keras_maker, options = entry
    positional = dict(zip(("learning_rate",), call.args, strict=False))
    arguments = {**positional, **call.kwargs}
    rate = arguments.pop("learning_rate", None)
    settings = _settings(evolve(call, args=call.args[1:], kwargs=arguments), keras_maker)
    _refuse_unused(call, arguments, options)
    return rule(settings, _learning_rate(rate, settings))


def _settings(call: ir.Call, maker: Callable[..., Any]) -> Any:
    with tf.Graph().as_default():  # Keras makes variables for its step count, which are thrown away
        try:
            return maker(
                **{key: value for key, value in call.kwargs.items() if not isinstance(value, ir.Call)}
            )
        except (TypeError, ValueError) as fault:
            raise SpecError(
                [errors.layer_cannot_be_made(call.name, first_sentence(fault), call.span)]
            ) from fault


def _learning_rate(rate: ir.Value, settings: Any) -> Any:
    if isinstance(rate, ir.Call):
        return make(rate, "schedule")
    if rate is None:
        return float(settings.get_config()["learning_rate"])
    return rate


def _refuse_unused(call: ir.Call, arguments: Mapping[str, ir.Value], options: tuple[str, ...]) -> None:
    """Refuse options that the fused op would silently leave out."""
    for name, value in arguments.items():
        if name not in options and value not in (None, False):
            span = call.kwarg_spans.get(name, call.span)
            what = f"`{name}` of `{call.name}`"
            raise SpecError([errors.not_supported_yet(what, span, _listed(options))])


def _listed(names: Any) -> str:
    return ", ".join(f"`{each}`" for each in names)
