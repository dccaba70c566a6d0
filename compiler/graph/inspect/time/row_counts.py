"""The sizes of tensors whose rows are counted only while a step runs, as the forecast of time takes them.

Rows of a gradient that belong to the same row of a table are added up, and rows are divided among devices by
their indices. TensorFlow does not know how many there are then. They are at most as many as before, and the
parts of a division are taken as equally large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from attrs import define, field, frozen

Shapes = Sequence[tf.TensorShape]


@frozen
class SizedTensor:
    """A tensor with the shape that it is taken to have.

    Attributes:
        op: The op that makes it.
        shape: The shape.
        dtype: Its type.
    """

    op: Any = field(repr=False)
    shape: tf.TensorShape
    dtype: Any


@frozen
class SizedOp:
    """An op with the shapes that its tensors are taken to have.

    Attributes:
        inputs: Its inputs.
        outputs: Its outputs.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@define
class RowCounts:
    """The tensors of a graph whose rows are counted while it runs, and the shapes that stand for theirs.

    Attributes:
        graph: The graph.
    """

    graph: tf.Graph = field(repr=False)
    _shapes: dict[str, tf.TensorShape] = field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        for op in self.graph.get_operations():
            rule = _RULES.get(op.type)
            if rule is None or all(each.shape.is_fully_defined() for each in op.outputs):
                continue
            shapes = [self._shape(each) for each in op.inputs]
            if all(each.is_fully_defined() for each in shapes):
                for tensor, shape in zip(op.outputs, rule(op, shapes), strict=True):
                    if tensor.shape.is_compatible_with(shape):
                        self._shapes[tensor.name] = shape

    def sized(self, op: Any) -> Any:
        """Return an op of the graph with the shapes that its tensors are taken to have.

        Args:
            op: The op.
        """
        if not self._shapes or not any(each.name in self._shapes for each in (*op.inputs, *op.outputs)):
            return op
        return SizedOp(self._sized(op.inputs), self._sized(op.outputs))

    def _sized(self, tensors: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(SizedTensor(each.op, self._shape(each), each.dtype) for each in tensors)

    def _shape(self, tensor: Any) -> tf.TensorShape:
        shape: tf.TensorShape = self._shapes.get(tensor.name, tensor.shape)
        return shape


def _as_given(op: Any, shapes: Shapes) -> Shapes:
    return [shapes[0]] * len(op.outputs)


def _divided(op: Any, shapes: Shapes) -> Shapes:
    parts: int = op.get_attr("num_partitions")
    rows = -(-shapes[0].as_list()[0] // parts)
    return [tf.TensorShape([rows]).concatenate(shapes[0][1:])] * parts


def _cut(op: Any, shapes: Shapes) -> Shapes:
    if tf.get_static_value(op.inputs[2]) != 0:
        return [shapes[0][:1].concatenate(each.shape[1:]) for each in op.outputs]
    rows = -(-shapes[0].as_list()[0] // len(op.outputs))
    return [tf.TensorShape([rows]).concatenate(shapes[0][1:])] * len(op.outputs)


def _joined(op: Any, shapes: Shapes) -> Shapes:
    if tf.get_static_value(op.inputs[-1]) != 0:
        return [op.outputs[0].shape]
    rows = sum(each.as_list()[0] for each in shapes[:-1])
    return [tf.TensorShape([rows]).concatenate(shapes[0][1:])]


def _added_up(_op: Any, shapes: Shapes) -> Shapes:
    rows, places = shapes[0], shapes[1]
    return [tf.TensorShape([places.num_elements()]).concatenate(rows[places.rank :])]


def _with_all_rows(op: Any, shapes: Shapes) -> Shapes:
    shape = op.outputs[0].shape
    if not (op.get_attr("begin_mask") & op.get_attr("end_mask") & 1) or not shape.rank:
        return [shape]
    return [shapes[0][:1].concatenate(shape[1:])]


_RULES: Mapping[str, Callable[[Any, Shapes], Shapes]] = {
    "Cast": _as_given,
    "ConcatV2": _joined,
    "DynamicPartition": _divided,
    "Identity": _as_given,
    "SparseSegmentSumGrad": _added_up,
    "SplitV": _cut,
    "StridedSlice": _with_all_rows,
    "Unique": _as_given,
    "UnsortedSegmentSum": _added_up,
}
"""The shapes of the outputs of ops on rows, by the types of these."""
