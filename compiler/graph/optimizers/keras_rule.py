"""Any Keras optimizer by its own update rule, for which there is no fused op."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve, field, frozen

from compiler.graph.optimizers.base import Gradient, Optimizer, Scalars
from compiler.graph.optimizers.update_trace import (
    GRADIENT,
    INDICES,
    RATE,
    STEP,
    WEIGHT,
    UpdateTrace,
    trace_update,
)
from compiler.graph.tower.template import WeightInfo
from compiler.graph.variables.variables import SlotSpec


@frozen
class KerasRule(Optimizer):
    """The `update_step` of a Keras optimizer, with its weight decay, as ops beside each weight.

    It is traced once for each shape and type of weights. A state that Keras has once for all weights, such as
    the product of momenta of Nadam, is a slot of each weight.
    """

    FUSED = False

    label: str = ""  # what the names of its slots begin with: the name of its class
    make: Callable[[], Any] = field(default=lambda: None, repr=False)
    # Returns what an update depends on apart from shape and type of its weight.
    kind_of: Callable[[WeightInfo], Hashable] = field(default=lambda _: None, repr=False)
    # Calls a function that traces, and reports what the optimizer raises.
    tracing: Callable[[Callable[[], UpdateTrace]], UpdateTrace] = field(default=lambda run: run(), repr=False)
    weight: WeightInfo | None = None  # the weight that this is the rule of; None for a rule of all weights
    # Returns whether the update of an element of a weight depends on other elements.
    joins: Callable[[WeightInfo], bool] = field(default=lambda _: True, repr=False)
    _traces: dict[Hashable, UpdateTrace] = field(factory=dict, repr=False, eq=False)

    def for_weight(self, weight: WeightInfo, *, decays: bool) -> Optimizer:
        """Return the rule for one weight, which shares its traces with those of the others."""
        return evolve(self, weight=weight, decays=decays)

    @property
    def needs_whole(self) -> bool:
        """Whether the update of an element of this weight depends on other elements."""
        return self.weight is not None and self.joins(self.weight)

    def slot_specs(self) -> tuple[SlotSpec, ...]:
        """Return the slots that the update of this weight uses."""
        return self._trace(sparse=False).slots

    def own_scalars(self, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return the number of updates before this one, which Keras calls iterations."""
        return {STEP: tf.identity(step, name=STEP)}

    @property
    def kind(self) -> Hashable:
        """What the update of this weight depends on."""
        return self.decays, None if self.weight is None else self.kind_of(self.weight)

    def apply(
        self, handle: tf.Tensor, slots: Sequence[tf.Tensor], gradient: Gradient, scalars: Scalars
    ) -> tf.Operation:
        """Write the traced update, weight decay included."""
        given: dict[str | int, tf.Tensor] = {WEIGHT: handle, **dict(enumerate(slots))}
        given |= {RATE: scalars["learning_rate"], STEP: scalars[STEP]}
        sparse = isinstance(gradient, tf.IndexedSlices)
        given[GRADIENT] = gradient.values if sparse else gradient
        if sparse:
            given[INDICES] = tf.cast(gradient.indices, tf.int64)
        return self._trace(sparse=sparse).write(self.label, given)

    def _trace(self, *, sparse: bool) -> UpdateTrace:
        weight = self.weight
        assert weight is not None
        key = (weight.shape, weight.dtype, sparse, self.kind)
        if key not in self._traces:
            self._traces[key] = self.tracing(
                lambda: trace_update(self.make, self.label, weight, decays=self.decays, sparse=sparse)
            )
        return self._traces[key]
