"""The floating point operations of an op, from the shapes of its inputs and outputs.

A multiplication and an addition count as two operations. For a matrix product of [m, k] and [k, n] that is
2 m k n; a convolution is such a product with k = height * width * channels of the kernel, and its two
gradients cost as much as itself. A sum of n tensors has n - 1 operations for each element. All other ops
count one operation for each element that they write or, if they reduce, read. That is exact for elementwise
arithmetic and too little for functions such as `Exp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

Shape = tuple[int, ...]

_PRODUCTS = {"MatMul", "_FusedMatMul"}
_BATCHED = {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}
_SUMS = {"AddN"}
_CONVOLUTIONS = {"Conv2D", "Conv3D", "DepthwiseConv2dNative"}
_TO_KERNEL = {
    "Conv2DBackpropFilter",
    "Conv3DBackpropFilterV2",
    "DepthwiseConv2dNativeBackpropFilter",
}
_TO_INPUT = {
    "Conv2DBackpropInput",
    "Conv3DBackpropInputV2",
    "DepthwiseConv2dNativeBackpropInput",
}
PASSED_ON = frozenset(
    {
        "Const",
        "Enter",
        "Exit",
        "ExpandDims",
        "Identity",
        "IdentityN",
        "LoopCond",
        "Merge",
        "NextIteration",
        "NoOp",
        "ReadVariableOp",
        "Reshape",
        "Shape",
        "Squeeze",
        "StopGradient",
        "Switch",
        "VarHandleOp",
    }
)
"""The types of ops that compute nothing, and pass a tensor on without reading or copying it."""


def flops(
    kind: str,
    inputs: Sequence[Shape | None],
    outputs: Sequence[Shape | None],
    *,
    transposed: bool = False,
) -> int:
    """Return the floating point operations of an op; 0 if the shapes that it takes to know are unknown.

    Args:
        kind: The type of the op in TensorFlow.
        inputs: The shapes of its inputs; None for one that is unknown.
        outputs: The shapes of its outputs.
        transposed: Whether the first factor of a product is transposed.
    """
    if kind in PASSED_ON:
        return 0
    first = inputs[0] if inputs else None
    made = outputs[0] if outputs else None
    if kind in _PRODUCTS | _BATCHED and first is not None and made is not None and len(first) > 1:
        return 2 * prod(made) * first[-2 if transposed else -1]
    kernel, image = _convolution(kind, inputs, outputs)
    if kernel is not None and image is not None:
        depthwise = kind.startswith("Depthwise")
        taps = prod(kernel[:-2]) if depthwise else prod(kernel[:-1])
        return 2 * prod(image) * taps
    if kind in _SUMS and made is not None:
        return (len(inputs) - 1) * prod(made)
    known = [prod(each) for each in (*inputs, *outputs) if each is not None]
    return max(known, default=0)


def _convolution(
    kind: str, inputs: Sequence[Shape | None], outputs: Sequence[Shape | None]
) -> tuple[Shape | None, Shape | None]:
    """Return the shapes of the kernel and of the result of a convolution, also for its gradients."""
    if kind in _CONVOLUTIONS:
        _, kernel, *_ = inputs
        return kernel, outputs[0]
    if kind in _TO_KERNEL:
        return outputs[0], inputs[-1]
    return (inputs[1], inputs[-1]) if kind in _TO_INPUT else (None, None)
