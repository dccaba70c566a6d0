"""Regularization: once for each step whatever the number of clones, on the device of the variable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.ledger import Ledger
from compiler.graph.tower.network.network import make
from compiler.graph.tower.template import WeightInfo
from compiler.graph.user_code import UserCode
from compiler.graph.variables.variables import GraphVariable, VariablePart
from compiler.model.graph import label_of
from compiler.placement.rules import following
from compiler.reasons import Placed
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


def add_regularization(variable: GraphVariable, copy: int, gradient: Any) -> Any:
    """Return a gradient with that of the variable's regularizer added, which makes a sparse one dense.

    Args:
        variable: The variable, or a piece of a weight.
        copy: The number of the copy of the variable that the gradient is for.
        gradient: The gradient: a tensor of the shape of the variable, or rows of it.

    Returns:
        A tensor of the shape of the variable if it has a regularizer, else the gradient as it is.
    """
    regularizer = variable.info.regularizer
    if regularizer is None:
        return gradient
    part = variable if isinstance(variable, VariablePart) else None
    handle = (variable if part is None else part.whole).copies[copy if part is None else part.copy].handle
    weight = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.info.dtype)
    own = tf.gradients(regularizer(weight), weight)[0]
    if part is not None:
        own = part.of(own)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.tensor_scatter_nd_add(own, tf.expand_dims(gradient.indices, 1), gradient.values)
    return gradient + own


def regularization_loss(
    variables: Iterable[GraphVariable],
    shares: Sequence[float],
    ledger: Ledger,
    reads: dict[str, list[tf.Operation]],
) -> list[tf.Tensor]:
    """Return the terms that regularizers add to the loss of a step, each made beside its variable.

    Args:
        variables: The variables.
        shares: The shares of the clones in the batch. Copies that are trained separately count by them, as
            the losses of their clones do. Other copies are all equal.
        ledger: The ledger of the graph.
        reads: By the name of a copy's handle, the reads of it. Those made here are added.
    """
    terms = []
    for variable in variables:
        if not _is_regularized(variable):
            continue
        separate = variable.mean is not None
        for copy, share in enumerate(shares if separate else (1.0,)):
            with ledger.place(variable.beside(copy), "metric"):
                handle = variable.copies[copy].handle
                penalty, read = _penalty(variable, handle)
                reads.setdefault(handle.name, []).append(read)
                terms.append(penalty * share if separate else penalty)
    return terms


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
                terms.append(_penalty(variable, source.handle)[0])
    return terms


def _is_regularized(variable: GraphVariable) -> bool:
    return variable.info.regularizer is not None and variable.info.trainable


def _penalty(variable: GraphVariable, handle: tf.Tensor) -> tuple[tf.Tensor, tf.Operation]:
    """Return the penalty of a variable, and the op that reads the variable for it."""
    weight = tf.raw_ops.ReadVariableOp(resource=handle, dtype=variable.info.dtype)
    return tf.cast(variable.info.regularizer(weight), tf.float32), weight.op
