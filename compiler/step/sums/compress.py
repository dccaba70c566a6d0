"""Sums whose values are sent from one host to another with fewer bits.

Values are cast on the device that sends them, and cast back before they are added up. Whoever else uses a
value that was sent gets what the receivers get, so that all copies of a weight stay equal.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from compiler.reasons import Placed
from compiler.step.record import ITEM_BYTES, Op, Tensor, Value
from compiler.step.sums.base import Aggregation, Reduction
from compiler.step.values import tensors_of, values_of, with_values
from compiler.step.writer import StepWriter
from compiler.topology import Device

CASTS = ("bfloat16", "float16")
"""The types to which values are cast."""


def is_wide(tensor: Tensor, dtype: str) -> bool:
    """Whether a tensor has floating point values of more bits than those of a type."""
    return tensor.dtype.startswith("float") and ITEM_BYTES[tensor.dtype] > ITEM_BYTES[dtype]


def narrowed(aggregation: Aggregation, dtype: str) -> Aggregation:
    """Return an aggregation that sends floating point values of more bits from host to host as `dtype`."""

    def narrow(reduction: Reduction) -> list[Value]:
        whole = evolve(reduction.writer, ops=[])
        sums = aggregation(evolve(reduction, writer=whole))
        return _Narrowed(reduction, whole.take(), dtype).write(sums)

    return narrow


class _Narrowed:
    """The ops of a sum, with casts where a value goes to another host."""

    def __init__(self, reduction: Reduction, ops: Sequence[object], dtype: str) -> None:
        self.writer: StepWriter = reduction.writer
        self.ops = [each for each in ops if isinstance(each, Op)]  # aggregations use no fragments
        self.dtype = dtype
        self.sources = {  # of each tensor, by its name: the place, and the scope of what is made of it
            tensor.name: (home, f"{reduction.scope}/clone_{rank}")
            for rank, (value, home) in enumerate(zip(reduction.values, reduction.homes, strict=True))
            for tensor in tensors_of(value)
        }
        self.sources |= {each.name: (op.placed, op.name) for op in self.ops for each in op.outputs}
        self.sent: dict[str, Tensor] = {}
        self.received: dict[tuple[str, Device], Tensor] = {}
        self.abroad = self._abroad()

    def _abroad(self) -> set[str]:
        """Return the names of the tensors that are sent, or of which a copy within the host is."""
        found = set[str]()
        for op in reversed(self.ops):
            copied = op.type == "Identity" and op.outputs[0].name in found
            found |= {
                each.name
                for each in op.inputs
                if is_wide(each, self.dtype) and (copied or self._leaves(each, op))
            }
        return found

    def write(self, sums: Sequence[Value]) -> list[Value]:
        """Write the ops; return the sums as they are afterwards."""
        for op in self.ops:
            taken = tuple(self._at(each, op.placed) for each in op.inputs)
            self.writer.ops.append(evolve(op, inputs=taken))
        return [self._result(each) for each in sums]

    def _leaves(self, tensor: Tensor, op: Op) -> bool:
        return self.sources[tensor.name][0].device.host != op.device.host

    def _at(self, tensor: Tensor, placed: Placed) -> Tensor:
        """Return a tensor as an op at a place takes it; all ops of the host that made it take the same."""
        if tensor.name not in self.abroad:
            return tensor
        home, scope = self.sources[tensor.name]
        if tensor.name not in self.sent:
            self.sent[tensor.name] = self.writer.cast(f"{scope}/sent", tensor, self.dtype, home)
        at = home if placed.device.host == home.device.host else placed
        key = tensor.name, at.device
        if key not in self.received:
            sent = self.sent[tensor.name]
            self.received[key] = self.writer.cast(f"{scope}/received", sent, tensor.dtype, at)
        return self.received[key]

    def _result(self, value: Value) -> Value:
        elements = values_of(value)
        found = self._at(elements, self.sources[elements.name][0])
        return value if found is elements else with_values(value, found)
