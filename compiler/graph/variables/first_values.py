"""First values of variables, traced once and written for each graph that has the variable.

TensorFlow's functions for single ops take most of the time in which variables are made.
"""

from __future__ import annotations

from inspect import unwrap
from typing import Any
from weakref import WeakKeyDictionary

import keras
import tensorflow as tf

from compiler.graph.fragments import fragment_of
from compiler.graph.tower.template import WeightInfo
from compiler.step.record import Fragment

_PLAIN = (keras.initializers.Zeros, keras.initializers.Ones)
"""Initializers whose values are the same for all weights of a shape, and for all their elements."""

_MOST_BYTES = 1 << 20
"""Nodes that take more bytes, because they hold many numbers, are not kept."""


_known: WeakKeyDictionary[Any, dict[tuple[tuple[int, ...], str], Fragment | None]] = WeakKeyDictionary()


def called(info: WeightInfo) -> tf.Tensor:
    """Return the first value of a weight, made in the default graph."""
    return tf.cast(info.initializer(info.shape, dtype=info.dtype), info.dtype)


def is_plain(initializer: Any) -> bool:
    """Whether an initializer gives all elements the same number, whatever the shape."""
    return type(unwrap(initializer)) in _PLAIN


def first_nodes(info: WeightInfo) -> Fragment | None:
    """Return the nodes that make the first value of a weight.

    Returns:
        None if the value has to be made in the graph that has the variable: random ops with a state draw
        other numbers in another graph.
    """
    own = unwrap(info.initializer)
    owner = type(own) if type(own) in _PLAIN else info.initializer
    kinds = _known.setdefault(owner, {})
    key = (tuple(info.shape), info.dtype)
    if key not in kinds:
        kinds[key] = _traced(info)
    return kinds[key]


def _traced(info: WeightInfo) -> Fragment | None:
    with tf.Graph().as_default() as graph:
        value = called(info)
        if any(each.op_def.is_stateful for each in graph.get_operations()):
            return None
        found = fragment_of(graph, value)
    fits = not found.nodes.library.function and found.nodes.ByteSize() <= _MOST_BYTES
    return found if fits else None
