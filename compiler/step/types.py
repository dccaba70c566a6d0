"""The types of ops that steps are written with, and the type and shape of what each makes.

The floating point operations of an op are in `compiler/time/work.py`, for these types and for those of
towers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from compiler.step.record import Made, Shape, Tensor

Rule: TypeAlias = Callable[[Sequence[Tensor], Mapping[str, Any]], Made]


def _always(*made: tuple[str, Shape]) -> Rule:
    """Return the rule of ops that always make the same."""
    return lambda _, __: made


def _same(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    return [(inputs[0].dtype, inputs[0].shape)]


def _reshaped(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    wanted = [None if each < 0 else each for each in inputs[1].value]
    count = inputs[0].elements
    if count is not None and None in wanted:
        rest = prod(each for each in wanted if each is not None)
        wanted = [count // rest if each is None else each for each in wanted]
    return [(inputs[0].dtype, tuple(wanted))]


def _joined(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    *parts, axis = inputs
    shapes = [each.shape for each in parts]
    if any(each is None for each in shapes):
        return [(parts[0].dtype, None)]
    along = [each[axis.value] for each in shapes if each is not None]
    whole = list(shapes[0] or ())
    known = [each for each in along if each is not None]
    whole[axis.value] = sum(known) if len(known) == len(along) else None
    return [(parts[0].dtype, tuple(whole))]


def _split(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    whole, sizes, axis = inputs
    assert whole.shape is not None
    before, after = whole.shape[: axis.value], whole.shape[axis.value + 1 :]
    made = {size: (whole.dtype, (*before, size, *after)) for size in {*sizes.value}}
    return [made[size] for size in sizes.value]  # of which very many may be alike


def _shape(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    shape = inputs[0].shape
    return [("int32", (None if shape is None else len(shape),))]


def _sliced(inputs: Sequence[Tensor], attributes: Mapping[str, Any]) -> Made:
    whole, begin, end, _ = inputs
    if whole.shape is None:
        return [(whole.dtype, None)]
    size, *rest = whole.shape
    if attributes.get("shrink_axis_mask"):
        return [(whole.dtype, tuple(rest))]
    ends = [attributes.get("begin_mask") or begin.value, attributes.get("end_mask") or end.value]
    if size is not None and None not in ends:
        first, last = (None if each == 1 else each[0] for each in ends)
        size = len(range(size)[first:last])
    else:
        size = None
    return [(whole.dtype, (size, *rest))]


def _held(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    assert inputs[0].holds is not None
    return [inputs[0].holds]


def _compared(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    return [("bool", inputs[0].shape)]


def _segments(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    rows = inputs[0].shape
    return [(inputs[0].dtype, None if rows is None else (None, *rows[1:]))]


def _gathered(inputs: Sequence[Tensor], _: Mapping[str, Any]) -> Made:
    values, places = inputs[0], inputs[1]
    dtype, shape = (values.dtype, values.shape) if values.holds is None else values.holds
    known = None if shape is None or places.shape is None else (*places.shape, *shape[1:])
    return [(dtype, known)]


TYPES: Mapping[str, Rule] = {
    "AddN": _same,
    "AddV2": _same,
    "Assert": _always(),
    "AssignAddVariableOp": _always(),
    "AssignSubVariableOp": _always(),
    "AssignVariableOp": _always(),
    "Cast": lambda inputs, attributes: [(attributes["DstT"], inputs[0].shape)],
    "CollectiveReduce": _same,
    "ConcatV2": _joined,
    "Const": lambda _, attributes: [(attributes["dtype"], attributes["shape"])],
    "ConsumeMutexLock": _always(),
    "DivNoNan": _same,
    "DynamicPartition": lambda inputs, given: [*_segments(inputs, given)] * int(given["num_partitions"]),
    "Enter": _same,
    "Equal": _compared,
    "Exit": _same,
    "FIFOQueueV2": _always(("resource", ())),
    "Fill": lambda inputs, _: [(inputs[1].dtype, tuple(inputs[0].value))],
    "FloorMod": _same,
    "GatherV2": _gathered,
    "Greater": _compared,
    "Identity": _same,
    "InvertPermutation": _same,
    "Less": _compared,
    "LoopCond": _same,
    "Merge": lambda inputs, _: [(inputs[0].dtype, inputs[0].shape), ("int32", ())],
    "Minimum": _same,
    "Mul": _same,
    "MutexLock": _always(("variant", ())),
    "MutexV2": _always(("resource", ())),
    "NextIteration": _same,
    "NoOp": _always(),
    "Pack": lambda inputs, _: [(inputs[0].dtype, (len(inputs), *(inputs[0].shape or ())))],
    "QueueDequeueV2": lambda _, attributes: [(each, None) for each in attributes["component_types"]],
    "QueueEnqueueV2": _always(),
    "QueueSizeV2": _always(("int32", ())),
    "Range": _always(("int32", (None,))),
    "ReadVariableOp": _held,
    "Reciprocal": _same,
    "Reshape": _reshaped,
    "ResourceGather": _gathered,
    "SelectV2": lambda inputs, _: [(inputs[1].dtype, inputs[1].shape)],
    "Shape": _shape,
    "Sign": _same,
    "Size": _always(("int32", ())),
    "SplitV": _split,
    "Stage": _always(),
    "StageClear": _always(),
    "StageSize": _always(("int32", ())),
    "StridedSlice": _sliced,
    "Sub": _same,
    "Switch": lambda inputs, _: [*_same(inputs, _)] * 2,
    "Timestamp": _always(("float64", ())),
    "Unique": lambda inputs, _: [(inputs[0].dtype, (None,)), ("int32", inputs[0].shape)],
    "UnsortedSegmentSum": _segments,
    "UpperBound": lambda inputs, _: [("int32", inputs[1].shape)],
    "VarHandleOp": _always(("resource", ())),
    "ZerosLike": _same,
}
"""What ops of each type make of their inputs and attributes.

A product is that of a tensor and a number. A slice is along the first axis.
"""
