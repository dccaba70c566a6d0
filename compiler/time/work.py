"""The work of one step, as records without TensorFlow: its ops, what each waits for, and where each runs.

The records say nothing about time. `costs.py` says how long an op takes, and `simulate.py` when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from attrs import evolve, field, frozen

from compiler.topology import Device, Host

NO_RULE = "(none)"
"""What stands in place of a rule for what is no op, such as waiting for others."""

SIZED_BY_VALUES = (
    "BroadcastTo",
    "Fill",
    "ScatterNd",
    "Slice",
    "SparseSegmentSumGrad",
    "StridedSlice",
    "Tile",
    "UnsortedSegmentSum",
)
"""The types of ops whose inputs have the shape of the result as a value, so that theirs do not tell it."""


@frozen(cache_hash=True)
class Signature:
    """All that the time of an op depends on: ops with equal signatures take equally long."""

    type: str
    inputs: tuple[str, ...]  # the type and shape of each input, such as `float32[32,784]`
    # Attributes that change the work, such as strides, and what TensorFlow fuses into the op.
    detail: str = ""


@frozen
class TimedOp:
    """An op of a step."""

    name: str
    signature: Signature
    device: Device
    flops: int  # its floating point operations, as `flops` counts them
    bytes: int  # the bytes that it reads and writes, as far as shapes are known
    times: int = 1
    clone: int | None = None
    scope: str = ""  # the layer, or the part of the step, that it belongs to
    rule: str = NO_RULE  # what placed it, as text, or `NO_RULE`
    enters: str = ""  # the mutex that it waits for and takes, or nothing
    leaves: str = ""  # the mutex that it gives back, or nothing
    # Whether its process begins another run with it, which takes what the start of a step takes.
    begins: bool = False
    rounds: int = 1  # in how many rounds of a loop over micro-batches, one after the other, a step runs it

    def on(self, device: Device) -> TimedOp:
        """Return the same op on a device."""
        return evolve(self, device=device)


@frozen
class Arrow:
    """One op waits for another, or for a tensor of it."""

    source: int  # the index of the op that must run first
    target: int  # the index of the op that waits
    tensor: str = ""  # the tensor that is used; empty if the op only waits
    bytes: int = 0  # the size of the tensor; 0 if it is unknown, or if the tensor never leaves its device


@frozen
class Echo:
    """What an op sends to processes that are not simulated, because another one stands for them."""

    source: int
    target: Device  # the device that stands for those to which it is sent
    tensor: str  # the tensor, or nothing if the ops there only wait
    bytes: int
    # How often it is sent to others. They come before the one that stands for them.
    count: int


@frozen
class StepWork:
    """The work of one step."""

    # The ops, in the order in which they were put into the graph.
    ops: tuple[TimedOp, ...] = field(repr=False)
    # What each waits for, in the order in which TensorFlow tells the waiting ops.
    arrows: tuple[Arrow, ...] = field(repr=False)
    devices: tuple[Device, ...]  # all devices, also those without ops
    one_process: bool = True  # whether the devices are all logical devices of one process
    one_machine: bool = True  # whether all processes are on one machine, whose cores they share
    emulated: bool = False  # whether each device is a logical CPU, even if the spec says GPU
    op_threads: int = 0  # how many ops a process runs at the same time; 0 for one on each core
    inner_threads: int = 0  # how many threads of a process may work on one op; 0 for one on each core
    # The processes of which another number of threads may work on one op.
    task_threads: Mapping[Host, int] = field(factory=dict)
    # Whether threads that have nothing to do look for work for a while before they sleep.
    looking: bool = True
    # The indices of the ops that each clone repeats by itself, if clones do not step together; else empty.
    loops: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    # The processes that stand for others too, each with the number of those it stands for, itself included.
    alike: Mapping[Host, int] = field(factory=dict)
    echoes: tuple[Echo, ...] = field(default=(), repr=False)  # what is sent to these others
    # The devices of each clone that works on several micro-batches at the same time.
    pipelines: tuple[tuple[Device, ...], ...] = ()

    def threads_of(self, host: Host) -> int:
        """Return how many threads of a process may work on one op; 0 for one on each core."""
        return self.task_threads.get(host, self.inner_threads)

    def on_gpu(self, op: TimedOp) -> bool:
        """Whether an op runs on a GPU."""
        return op.device.kind == "gpu" and not self.emulated

    def device_numbers(self) -> list[int]:
        """Return a number for the device of each op, the same for equal devices.

        Numbers are compared and found in tables much faster than devices, which matters with very many ops.
        """
        numbers: dict[Device, int] = {}
        return [numbers.setdefault(op.device, len(numbers)) for op in self.ops]


def scope_of(name: str, tower: str = "") -> str:
    """Return the layer, or the part of the step, that an op belongs to: the first two levels of its name."""
    inner = name.removeprefix(f"{tower}/") if tower else name
    return "/".join(inner.split("/")[:-1][:2]) or inner


def crossings(work: StepWork) -> dict[tuple[int, str, Device], int]:
    """Return the bytes of what crosses to another device, by the index of an op, its tensor, and that device.

    A tensor that several ops of a device use is sent there once.
    """
    numbers = work.device_numbers()
    found: dict[tuple[int, str, Device], int] = {}
    for each in work.arrows:
        if numbers[each.source] != numbers[each.target]:
            found[each.source, each.tensor, work.ops[each.target].device] = each.bytes
    return found


# --- the floating point operations of an op, from the shapes of its inputs and outputs --------------------
#
# A multiplication and an addition count as two operations. For a matrix product of [m, k] and [k, n] that
# is 2 m k n; a convolution is such a product with k = height * width * channels of the kernel, and its two
# gradients cost as much as itself. A sum of n tensors has n - 1 operations for each element. All other ops
# count one operation for each element that they write or, if they reduce, read. That is exact for
# elementwise arithmetic and too little for functions such as `Exp`.


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

HANDED_OVER = frozenset(("QueueDequeueV2", "QueueEnqueueV2"))
"""The types of ops that hand a tensor over in the same way, to another process or from it."""


def flops(
    kind: str,
    inputs: Sequence[Shape | None],
    outputs: Sequence[Shape | None],
    *,
    transposed: bool = False,
) -> int:
    """Return the floating point operations of an op; 0 if the shapes that it takes to know are unknown."""
    if kind in PASSED_ON or kind in HANDED_OVER:
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
