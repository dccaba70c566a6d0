"""Small weights that a worker reads from a server come in one tensor, with rows of a table if there are any.

A call between two processes takes longer than to copy a few hundred kilobytes, by which small tensors are
joined and parted again. Each weight is whole, as it was when it was read there; several may be of different
updates, as those are that are sent by themselves. The rows are the first part, which TensorFlow need not copy
to part it from the rest: it begins where the joined tensor does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from compiler.reasons import Placed
from compiler.step.pieces import pack
from compiler.step.record import SMALL, Tensor
from compiler.step.writer import StepWriter
from compiler.topology import Device


@frozen
class Rider:
    """A small weight that comes with others, or with rows.

    Attributes:
        weight: The name of the weight.
        read: Its value as it is read beside its variable.
        sent: The name of its value in the tower.
        placed: The place beside the variable.
    """

    weight: str
    read: Tensor
    sent: str
    placed: Placed

    @property
    def device(self) -> Device:
        """The device of the variable."""
        return self.placed.device

    @property
    def is_small(self) -> bool:
        """Whether it is small enough to travel with others."""
        return (self.read.bytes or 0) <= SMALL


def read_together(
    writer: StepWriter, scope: str, riders: Sequence[Rider], tower: Placed
) -> Iterator[tuple[Rider, Tensor]]:
    """Send small weights of one device and type as one tensor; yield each as it is in the tower."""
    joined = pack(writer, scope, [each.read for each in riders], riders[0].placed)
    cut = writer.split(f"{scope}/cut", joined, [each.read.elements or 0 for each in riders], 0, tower)
    for each, value in zip(riders, cut, strict=True):
        yield each, writer.reshape(each.sent, value, each.read.known_shape or (), tower)


def carry(writer: StepWriter, rows: Tensor, riders: Sequence[Rider], placed: Placed, tower: Placed) -> Tensor:
    """Write the ops that send rows with riders as one tensor; return the rows in the tower."""
    name, row = rows.op, (rows.shape or ())[1:]
    flat = [writer.reshape(f"{name}/flat", rows, [-1], placed)]
    flat += [writer.reshape(f"{name}/with/{each.weight}", each.read, [-1], placed) for each in riders]
    joined = writer.concat(f"{name}/joined", flat, 0, placed)

    def part(own: str, span: slice, shape: Sequence[int]) -> Tensor:
        """Write a part of the joined tensor, as `span` takes it from a list, in a shape of its own."""
        words = {"begin": span.start or 0, "end": span.stop or 0, "stride": 1}
        ends = [writer.constant(f"{own}/{word}", [at], "int32", tower) for word, at in words.items()]
        open_ends = {"begin_mask": int(span.start is None), "end_mask": int(span.stop is None)}
        (taken,) = writer.write("StridedSlice", f"{own}/part", (joined, *ends), tower, open_ends)
        return writer.reshape(own, taken, shape, tower)

    left = sum(each.read.elements or 0 for each in riders)
    sent = part(f"{name}/sent", slice(None, -left), (-1, *(each or 0 for each in row)))
    for each in riders:
        begin, left = -left, left - (each.read.elements or 0)
        part(each.sent, slice(begin, -left or None), each.read.known_shape or ())
    return sent
