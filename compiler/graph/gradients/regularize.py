"""Regularization: once for each step whatever the number of clones, on the device of the variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import tensorflow as tf
from attrs import evolve, frozen

from compiler.graph.gradients.slopes import write_slope
from compiler.graph.ledger import Ledger, given
from compiler.graph.tower.network.network import make
from compiler.graph.tower.network.precision import in_float32
from compiler.graph.tower.template import WeightInfo
from compiler.graph.user_code import UserCode
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.model.graph import label_of
from compiler.placement.rules import following
from compiler.reasons import Placed
from compiler.step.record import Tensor, Value
from compiler.step.writer import StepWriter
from dsl import ir


def with_regularizers(
    weights: Mapping[str, WeightInfo], regularize: ir.Call | None, base: str
) -> dict[str, WeightInfo]:
    """Return the weights, with the model's regularizer for every kernel that has none of its own.

    Args:
        weights: The weights by name.
        regularize: The call that makes the regularizer, or None.
        base: The folder in which `python(...)` looks for modules first.
    """
    if regularize is None:
        return dict(weights)
    user = UserCode(label_of(regularize), regularize.span)
    shared = user.guarded(make(regularize, "regularizer", base=base))
    return {
        name: evolve(info, regularizer=shared) if info.regularizer is None and _is_kernel(info) else info
        for name, info in weights.items()
    }


def _is_kernel(info: WeightInfo) -> bool:
    return info.trainable and info.name.rpartition("/")[2].endswith("kernel")


@frozen
class Unregularized:
    """A gradient to which that of a regularizer is to be added.

    Attributes:
        variable: The variable, or a piece of a weight.
        copy: The number of the copy of the variable that the gradient is for.
        scope: The scope of what is added, without a slash at the end.
        gradient: The gradient: a tensor of the shape of the variable, or rows of it.
    """

    variable: GraphVariable
    copy: int
    scope: str
    gradient: Value

    @property
    def placed(self) -> Placed:
        """The place of what is added."""
        return self.variable.beside(self.copy)

    @property
    def whole(self) -> tuple[GraphVariable, int]:
        """The variable that is regularized, and the number of its copy."""
        if isinstance(self.variable, VariablePart):
            return self.variable.whole, self.variable.copy
        return self.variable, self.copy

    @property
    def is_plain(self) -> bool:
        """Whether the gradient is a tensor of the shape of the variable that is regularized."""
        return not isinstance(self.variable, VariablePart) and isinstance(self.gradient, Tensor)

    def plus(self, slope: tf.Tensor, ledger: Ledger) -> Value:
        """Return the gradient with that of the regularizer.

        Args:
            slope: The gradient of the regularizer, of the shape of the whole variable.
            ledger: The ledger of the graph.
        """
        with ledger.place(self.placed, "update"), tf.name_scope(f"{self.scope}/"):
            own = self.variable.of(slope) if isinstance(self.variable, VariablePart) else slope
            gradient = ledger.made(self.gradient)
            if isinstance(gradient, tf.IndexedSlices):
                rows = tf.expand_dims(gradient.indices, 1)
                return given(tf.tensor_scatter_nd_add(own, rows, gradient.values))
            return given(gradient + own)


def add_regularization(gradients: Sequence[Unregularized], ledger: Ledger) -> list[Value]:
    """Return gradients with those of the regularizers of their variables added.

    Args:
        gradients: The gradients.
        ledger: The ledger of the graph.

    Returns:
        A tensor of the shape of the variable for each that has a regularizer, even if there were rows. The
        gradients of the others are as they were.
    """
    writer = ledger.writer("update")
    written = [_written(writer, each) for each in gradients]
    found: list[Value] = []
    for each, value in zip(gradients, written, strict=True):
        if value is None:
            found.append(each.gradient)
        else:
            found.append(value if each.is_plain else each.plus(ledger.made(value), ledger))
    return found


def _written(writer: StepWriter, wanted: Unregularized) -> Tensor | None:
    """Write the gradient of a regularizer, or the sum of it and a plain gradient.

    Returns:
        The tensor; None if there is no gradient of a regularizer.
    """
    variable, copy = wanted.whole
    if variable.info.regularizer is None:
        return None
    placed = wanted.placed
    scope = writer.unique(f"{wanted.scope}/regularizer")
    weight = writer.read(f"{scope}/ReadVariableOp", variable.copies[copy].tensor, placed)
    slope = write_slope(writer, scope, variable.info, weight, placed)
    if slope is None or not wanted.is_plain:
        return slope
    assert isinstance(wanted.gradient, Tensor)
    name = writer.unique(f"{wanted.scope}/add")
    return writer.write("AddV2", name, (wanted.gradient, slope), placed)[0]


def regularization_loss(
    variables: Iterable[GraphVariable],
    shares: Sequence[float],
    ledger: Ledger,
    reads: dict[str, list[str]],
) -> list[tf.Tensor]:
    """Return the terms that regularizers add to the loss of a step, each made beside its variable.

    Args:
        variables: The variables.
        shares: The shares of the clones in the batch. Copies that are trained separately count by them, as
            the losses of their clones do. Other copies are all equal.
        ledger: The ledger of the graph.
        reads: By the name of a copy, the names of the reads of it. Those made here are added.
    """
    terms = []
    for variable in variables:
        if not _is_regularized(variable):
            continue
        separate = variable.mean is not None
        for copy, share in enumerate(shares if separate else (1.0,)):
            scope = _scope_of_copy(copy) if separate else nullcontext()
            with ledger.place(variable.beside(copy), "metric"), scope:
                own = variable.copies[copy]
                penalty, read = _penalty(variable, own)
                reads.setdefault(own.name, []).append(read.name)
                terms.append(penalty * share if separate else penalty)
    return terms


def _scope_of_copy(copy: int) -> AbstractContextManager[str]:
    """Return a scope for the term of a copy, so that the names of its ops say whose they are."""
    inside = tf.compat.v1.get_default_graph().get_name_scope()
    scope: AbstractContextManager[str] = tf.name_scope(f"{inside}/copy_{copy}/")  # the same for all variables
    return scope


def evaluated_regularization(variables: Iterable[GraphVariable], ledger: Ledger) -> list[tf.Tensor]:
    """Return the terms of the weights that are evaluated, each made beside the variable that is read.

    Args:
        variables: The variables of the model. Those without a regularizer are left out.
        ledger: The ledger of the graph, in which the ops are entered.
    """
    terms = []
    for variable in variables:
        if _is_regularized(variable):
            source = variable.evaluated
            beside = Placed(source.placed.device, following(variable.name, source.placed))
            with ledger.place(beside, "evaluation"):
                terms.append(_penalty(variable, source.variable)[0])
    return terms


def _is_regularized(variable: GraphVariable) -> bool:
    return variable.info.regularizer is not None and variable.info.trainable


def _penalty(variable: GraphVariable, copy: Any) -> tuple[tf.Tensor, tf.Operation]:
    """Return the penalty of a variable, and the op that reads the variable for it."""
    weight = tf.raw_ops.ReadVariableOp(resource=copy.handle, dtype=variable.info.dtype)
    return tf.cast(variable.info.regularizer(in_float32(weight)), tf.float32), weight.op
