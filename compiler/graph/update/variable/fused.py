"""Updates that are one op for each copy of a variable, traced once for a shape and written as nodes.

TensorFlow's functions for single ops would take most of the time in which a graph with many copies is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import tensorflow as tf
from attrs import frozen

from compiler.graph.fragments import fragment_of
from compiler.graph.ledger import Ledger, tensor_given
from compiler.graph.optimizers.base import Optimizer, Scalars
from compiler.reasons import Placed
from compiler.step.record import Fragment, Tensor
from compiler.step.writer import StepWriter

_WEIGHT, _GRADIENT, _SLOT, _SCALAR = "weight", "gradient", "slot", "scalar"


@frozen
class FusedUpdate:
    """An update of a copy of a variable.

    Attributes:
        rule: The rule, which updates by one op.
        scope: The scope of its ops, without a slash at the end.
        placed: The place of the copy.
        variables: The copy and its slots.
        gradient: The gradient, a tensor.
        scalars: The numbers of the step.
        after: The names of the ops that must end before the copy changes.
    """

    rule: Optimizer
    scope: str
    placed: Placed
    variables: Sequence[Any]
    gradient: Tensor
    scalars: Scalars
    after: Sequence[str]


_known: WeakKeyDictionary[Any, dict[tuple[Any, ...], Fragment]] = WeakKeyDictionary()
"""Traces by the settings of their rules. Clones that update by themselves all use the same."""


def write_fused(updates: Sequence[FusedUpdate], ledger: Ledger) -> list[str]:
    """Write updates, and return the names of the ops that end them.

    Args:
        updates: The updates.
        ledger: The ledger of the graph.
    """
    writer = ledger.writer("update")
    return [_write(writer, each) for each in updates]


def _write(writer: StepWriter, update: FusedUpdate) -> str:
    """Write an update; return the name of the op that ends it."""
    gradient, rule = update.gradient, update.rule
    traces = _known.setdefault(rule.settings, {})
    key = (type(rule), gradient.dtype, gradient.shape, *update.scalars)
    if key not in traces:
        traces[key] = _traced(update)
    names = [_WEIGHT, *(f"{_SLOT}_{at}" for at in range(len(update.variables) - 1))]
    given = {name: each.tensor for name, each in zip(names, update.variables, strict=True)}
    given[_GRADIENT] = gradient
    given |= {f"{_SCALAR}_{name}": tensor_given(each) for name, each in update.scalars.items()}
    return writer.use(traces[key], update.scope, given, update.placed, update.after).end


def _traced(update: FusedUpdate) -> Fragment:
    with tf.Graph().as_default() as graph:
        place = tf.compat.v1.placeholder
        weight = place(tf.resource, [], name=_WEIGHT)
        slots = [place(tf.resource, [], name=f"{_SLOT}_{at}") for at in range(len(update.variables) - 1)]
        gradient = place(update.gradient.dtype, update.gradient.shape, name=_GRADIENT)
        scalars = {
            name: place(each.dtype, each.shape, name=f"{_SCALAR}_{name}")
            for name, each in update.scalars.items()
        }
        return fragment_of(graph, update.rule.apply(weight, slots, gradient, scalars))
