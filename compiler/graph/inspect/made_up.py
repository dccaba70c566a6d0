"""Examples that are made up, for steps that are run to see where ops are, or how long they take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from compiler.graph.inputs.iterators import InputPipe

EVALUATED = 2
"""The examples in the batch of the evaluation."""

_PASSED_ON = (
    "Cast",
    "Enter",
    "ExpandDims",
    "GatherV2",
    "Identity",
    "RefEnter",
    "Reshape",
    "SelectV2",
    "Split",
    "SplitV",
    "Squeeze",
    "StridedSlice",
)
"""The types of ops whose result has values of an input, so that numbers of rows stay such numbers."""


def made_up_batch(pipe: InputPipe) -> dict[str, Any]:
    """Return a batch of the right types and shapes.

    Floats are random. So are integers that are looked up in a table: if all were equal, their row would be in
    the caches, and a step would take less time than with real examples. The rest are zeros or empty strings.
    """
    generator = np.random.default_rng(0)
    batch = {}
    for each in pipe.wanted:
        dtype, shape = tf.as_dtype(each.dtype), (pipe.size or EVALUATED, *each.assumed_shape)
        rows = _rows_of_table(pipe.batch[each.name]) if dtype.is_integer else None
        if dtype.is_floating:
            batch[each.name] = tf.constant(generator.random(shape), dtype)
        elif rows is not None:
            batch[each.name] = tf.constant(generator.integers(0, rows, shape), dtype)
        else:
            batch[each.name] = tf.zeros(shape, dtype)
    return batch


def _rows_of_table(numbers: tf.Tensor) -> int | None:
    """Return the rows of the smallest table in which numbers are looked up; None if they are in none."""
    found, seen, pending = list[int](), set[str](), [numbers]
    while pending:
        tensor = pending.pop()
        if tensor.name in seen:
            continue
        seen.add(tensor.name)
        for op in tensor.consumers():
            if op.type == "GatherV2" and tensor.name == op.inputs[1].name:
                rows = op.inputs[0].shape[0] if op.inputs[0].shape.rank else None
                found += [rows] if rows else []
            elif op.type in _PASSED_ON:
                pending += op.outputs
    return min(found, default=None)
