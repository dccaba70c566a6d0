"""What the time of an op depends on: type, shapes and attributes, operations, and the bytes that it moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from compiler.step.record import Op
from compiler.time.work import HANDED_OVER, PASSED_ON, SIZED_BY_VALUES, Signature, flops

Cost: TypeAlias = tuple[Signature, int, int]
"""What the time of an op depends on, its floating point operations, and the bytes that it moves."""

_TOLD = (
    "data_format",
    "dilations",
    "ksize",
    "padding",
    "strides",
    "transpose_a",
    "transpose_b",
    "adj_x",
    "adj_y",
    "is_training",
    "keep_dims",
    "DstT",
    "use_nesterov",
    "use_locking",
)
"""The attributes of ops on which their time depends."""

_TRANSPOSED = ("transpose_a", "adj_x")
_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")
_UPDATES = ("ResourceApply", "Assign")


def cost_of(op: Op, sized: Op | None = None, ops: Mapping[str, Op] | None = None) -> Cost:
    """Return what the time of an op depends on, its floating point operations, and the bytes that it moves.

    Args:
        sized: The same op with known shapes, if its own are not.
        ops: The ops of the step by name, if TensorFlow may make one op of it and one before it.
    """
    shaped = op if sized is None else sized
    told = {name: _text(op.attributes[name]) for name in _TOLD if name in op.attributes}
    transposed = any(told.get(name) == "True" for name in _TRANSPOSED)
    shapes = ([each.known_shape for each in tensors] for tensors in (shaped.inputs, shaped.outputs))
    moved = 0
    if op.type not in PASSED_ON and op.type not in HANDED_OVER:
        moved = sum(each.bytes or 0 for each in (*shaped.inputs, *shaped.outputs))
        if op.type.startswith(_UPDATES):
            moved += sum(each.held_bytes or 0 for each in op.inputs)
    return _signature(op, shaped, told, ops or {}), flops(op.type, *shapes, transposed=transposed), moved


def _signature(op: Op, shaped: Op, told: Mapping[str, str], ops: Mapping[str, Op]) -> Signature:
    kinds = tuple(each.text for each in shaped.inputs or shaped.outputs)
    details = [f"{name}={value}" for name, value in told.items()]
    before = ops.get(op.inputs[0].op) if op.type == "BiasAdd" else None
    if before is not None and before.type in _CONVOLUTIONS:  # TensorFlow makes one op of both
        of, *_ = cost_of(before, before, ops)
        details.append(f"after {of.type}({', '.join(of.inputs)}; {of.detail})")
    if op.type in SIZED_BY_VALUES:
        made = shaped.outputs[0]
        details.append(f"to {made.text.removeprefix(made.dtype)}")
    return Signature(op.type, kinds, " ".join(details))


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(_text(each) for each in value)
    return str(value)
