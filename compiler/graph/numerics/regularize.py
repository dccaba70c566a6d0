"""Regularisation: once per step however many clones there are, beside the variable it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf
from attrs import evolve

from compiler.graph.ledger import Ledger
from compiler.graph.network import make
from compiler.graph.template import WeightInfo
from compiler.graph.variables import GraphVariable
from dsl import ir


def with_regularizers(weights: Mapping[str, WeightInfo], regularize: ir.Call | None) -> dict[str, WeightInfo]:
    """Give every kernel without a regularizer of its own that of the model."""
    if regularize is None:
        return dict(weights)
    shared = make(regularize, "regularizer")
    return {
        name: evolve(info, regularizer=shared) if info.regularizer is None and _is_kernel(info) else info
        for name, info in weights.items()
    }


def _is_kernel(info: WeightInfo) -> bool:
    return info.trainable and info.name.rpartition("/")[2].endswith("kernel")


def add_regularization(variable: GraphVariable, copy: int, gradient: Any) -> Any:
    """Return `gradient` with that of the variable's regularizer added, which makes a sparse one dense."""
    regularizer = variable.info.regularizer
    if regularizer is None:
        return gradient
    weight = tf.raw_ops.ReadVariableOp(resource=variable.copies[copy].handle, dtype=variable.info.dtype)
    own = tf.gradients(regularizer(weight), weight)[0]
    if isinstance(gradient, tf.IndexedSlices):
        return tf.tensor_scatter_nd_add(own, tf.expand_dims(gradient.indices, 1), gradient.values)
    return gradient + own


def regularization_loss(variables: Iterable[GraphVariable], ledger: Ledger) -> list[tf.Tensor]:
    """Return the terms that regularizers add to the loss, each made beside its variable."""
    terms = []
    for variable in variables:
        if variable.info.regularizer is not None and variable.info.trainable:
            with ledger.place(variable.beside(), "metric"):
                weight = tf.raw_ops.ReadVariableOp(
                    resource=variable.copies[0].handle, dtype=variable.info.dtype
                )
                terms.append(tf.cast(variable.info.regularizer(weight), tf.float32))
    return terms
