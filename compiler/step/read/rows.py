"""The sizes of tensors whose rows are counted only while a step runs, as the forecast of time takes them.

Rows of a gradient that belong to the same row of a table are added up, and rows are divided among devices by
their indices. TensorFlow does not know how many there are then. They are at most as many as before, and the
parts of a division are taken as equally large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from attrs import define, evolve, field

from compiler.step.record import Op, Shape, Tensor

Known = tuple[int, ...]
Shapes = Sequence[Known]


@define
class RowCounts:
    """The tensors of a step whose rows are counted while it runs, and the shapes that stand for theirs."""

    # The ops of the step by name, each after those that make what it takes.
    ops: Mapping[str, Op] = field(repr=False)
    _shapes: dict[str, Shape] = field(factory=dict, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        for op in self.ops.values():
            rule = _RULES.get(op.type)
            if rule is None or not any(
                shape is None or None in shape for shape in {each.shape for each in op.outputs}
            ):
                continue
            taken = op.inputs[:1] if op.type == "Merge" else op.inputs  # a loop hands back the other one
            shapes = [self.shaped(each).known_shape for each in taken]
            known = [each for each in shapes if each is not None]
            if len(known) == len(shapes):
                for tensor, shape in zip(op.outputs, rule(self, op, known), strict=True):
                    if shape is not None and _is_compatible(tensor.shape, shape):
                        self._shapes[tensor.name] = shape

    def sized(self, op: Op) -> Op:
        """Return an op of the step with the shapes that its tensors are taken to have."""
        if not self._shapes or not any(each.name in self._shapes for each in (*op.inputs, *op.outputs)):
            return op
        return evolve(
            op, inputs=tuple(map(self.shaped, op.inputs)), outputs=tuple(map(self.shaped, op.outputs))
        )

    def starts_at(self, tensor: Tensor) -> bool:
        """Whether a tensor is the number of the first axis: a constant 0."""
        op = self.ops[tensor.op]
        return op.type == "Const" and bool(op.attributes["value"] == 0)

    def shaped(self, tensor: Tensor) -> Tensor:
        """Return a tensor with the shape that it is taken to have."""
        shape = self._shapes.get(tensor.name) if self._shapes else None
        return tensor if shape is None else evolve(tensor, shape=shape)


def _is_compatible(shape: Shape | None, other: Shape) -> bool:
    if shape is None:
        return True
    pairs = zip(shape, other, strict=False)
    return len(shape) == len(other) and all(None in pair or pair[0] == pair[1] for pair in pairs)


def _as_given(_: RowCounts, op: Op, shapes: Shapes) -> Sequence[Shape | None]:
    return [shapes[0]] * len(op.outputs)


def _divided(_: RowCounts, op: Op, shapes: Shapes) -> Sequence[Shape | None]:
    parts = int(op.attributes["num_partitions"])
    return [(-(-shapes[0][0] // parts), *shapes[0][1:])] * parts


def _cut(counts: RowCounts, op: Op, shapes: Shapes) -> Sequence[Shape | None]:
    if not counts.starts_at(op.inputs[2]):
        return [None if each.shape is None else (*shapes[0][:1], *each.shape[1:]) for each in op.outputs]
    rows = -(-shapes[0][0] // len(op.outputs))
    return [(rows, *shapes[0][1:])] * len(op.outputs)


def _joined(counts: RowCounts, op: Op, shapes: Shapes) -> Sequence[Shape | None]:
    if not counts.starts_at(op.inputs[-1]):
        return [op.outputs[0].shape]
    return [(sum(each[0] for each in shapes[:-1]), *shapes[0][1:])]


def _added_up(_: RowCounts, __: Op, shapes: Shapes) -> Sequence[Shape | None]:
    rows, places = shapes[0], shapes[1]
    return [(prod(places), *rows[len(places) :])]


def _with_all_rows(_: RowCounts, op: Op, shapes: Shapes) -> Sequence[Shape | None]:
    shape = op.outputs[0].shape
    whole = op.attributes.get("begin_mask", 0) & op.attributes.get("end_mask", 0) & 1
    return [(*shapes[0][:1], *shape[1:]) if whole and shape else shape]


_RULES: Mapping[str, Callable[[RowCounts, Op, Shapes], Sequence[Shape | None]]] = {
    "Cast": _as_given,
    "ConcatV2": _joined,
    "DynamicPartition": _divided,
    "Identity": _as_given,
    "Merge": lambda _, __, shapes: [shapes[0], None],
    "NextIteration": _as_given,
    "SparseSegmentSumGrad": _added_up,
    "SplitV": _cut,
    "StridedSlice": _with_all_rows,
    "Switch": _as_given,
    "Unique": _as_given,
    "UnsortedSegmentSum": _added_up,
}
"""The shapes of the outputs of ops on rows, by the types of these."""
