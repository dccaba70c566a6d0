"""The work of a step that is being written: ops that were taken over, and ops of the records of a step."""

from __future__ import annotations

from functools import cache

from attrs import define, field

from compiler.reasons import Placed, Reason
from compiler.step.read.costs import timed_op
from compiler.step.record import Op, Tensor
from compiler.step.writer import StepWriter
from compiler.time.work import NO_RULE, Arrow, TimedOp
from compiler.topology import Device


@define
class WorkWriter:
    """Writes the work of a step.

    Attributes:
        ops: The ops so far.
        arrows: What each of them waits for.
        step: Writes records of ops, which `finish` adds to the work.
    """

    ops: list[TimedOp] = field(factory=list, repr=False)
    arrows: list[list[Arrow]] = field(factory=list, repr=False)
    step: StepWriter = field(factory=lambda: StepWriter("aggregate"), repr=False)
    _numbers: dict[str, int] = field(factory=dict, repr=False)  # of the ops whose tensors records take

    def add(self, op: TimedOp) -> int:
        """Add an op; return its number."""
        self.ops.append(op)
        self.arrows.append([])
        return len(self.ops) - 1

    def wait(self, target: int, source: int, tensor: str = "", size: int = 0) -> None:
        """Let an op wait for another, or for a tensor of it.

        Args:
            target: The number of the op that waits.
            source: The number of the op that it waits for.
            tensor: The name of the tensor that it uses, or nothing.
            size: The bytes of this tensor.
        """
        self.arrows[target].append(Arrow(source, target, tensor, size))

    def given(self, number: int, dtype: str, shape: tuple[int, ...], output: int = 0) -> Tensor:
        """Return the record of a tensor that an op of the work makes.

        Args:
            number: The number of the op.
            dtype: The type of the tensor.
            shape: Its shape.
            output: Its number among the results of the op.
        """
        name = self.ops[number].name
        self._numbers[name] = number
        return Tensor(name, dtype, shape, output)

    def finish(self, tower: str = "") -> None:
        """Add the ops that have been written as records since the last call.

        Args:
            tower: The scope of the clone of these ops, or nothing.
        """
        for op in self.step.take():
            assert isinstance(op, Op)  # no sum uses a fragment
            number = self._numbers[op.name] = self.add(timed_op(op, tower))
            for each in op.inputs:
                self.wait(number, self.number(each), each.name, each.bytes or 0)

    def number(self, tensor: Tensor) -> int:
        """Return the number of the op that makes a tensor."""
        return self._numbers[tensor.op]


@cache
def place_on(device: Device) -> Placed:
    """Return the place on a device of what was put there by no rule."""
    return Placed(device, Reason(NO_RULE, "default"))
