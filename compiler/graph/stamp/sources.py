"""What a tower reads a weight from: a variable, or the variables of its pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import field, frozen

from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import SMALL, Tensor
from compiler.step.values import pack
from compiler.step.writer import StepWriter
from compiler.topology import Device


@frozen
class WeightSource:
    """A variable as one tower reads it."""

    variable: Any = field(repr=False)
    placed: Placed
    by_rows: bool = False  # whether its updates write rows of it, and never the whole


@frozen
class CutSource:
    """A variable in pieces, as one tower reads it."""

    shards: tuple[Shard, ...]
    sources: tuple[WeightSource, ...]

    @property
    def devices(self) -> tuple[Device, ...]:
        """The device of each piece."""
        return tuple(each.placed.device for each in self.sources)

    @property
    def deals_rows(self) -> bool:
        """Whether each row is in one of several pieces, so that a look-up must find out in which."""
        return len(self.shards) > 1 and self.shards[0].axis == 0


def gather_rows(
    writer: StepWriter, name: str, source: WeightSource, indices: Tensor, placed: Placed
) -> Tensor:
    """Write the gather of some rows of a variable in the type of the table.

    Which ops gather depends on how the variable is updated. `ResourceGather` locks the variable and makes
    TensorFlow keep it in a mode in which every dense update, and every read of the whole, copies it. That
    costs nothing if updates write rows as well, which need this mode anyway. A variable that is updated as a
    whole is read instead, which copies nothing, and its rows are gathered from what was read.
    """
    handle = source.variable.tensor
    if source.by_rows:
        given = {"dtype": handle.holds[0]}
        return writer.write("ResourceGather", name, (handle, indices), placed, given)[0]
    return writer.gather(name, writer.read(f"{name}/table", handle, placed), indices, placed)


# --- small weights that travel with others ----------------------------------------------------------------
#
# A call between two processes takes longer than to copy a few hundred kilobytes, by which small tensors are
# joined and parted again. Each weight is whole, as it was when it was read there; several may be of
# different updates, as those are that are sent by themselves. The rows are the first part, which TensorFlow
# need not copy to part it from the rest: it begins where the joined tensor does.


@frozen
class Rider:
    """A small weight that comes with others, or with rows."""

    weight: str
    read: Tensor  # its value as it is read beside its variable
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

    left = sum(each.read.elements or 0 for each in riders)
    own = writer.part(f"{name}/sent/part", joined, 0, -left, tower)
    sent = writer.reshape(f"{name}/sent", own, (-1, *(each or 0 for each in row)), tower)
    for each in riders:
        begin, left = -left, left - (each.read.elements or 0)
        own = writer.part(f"{each.sent}/part", joined, begin, -left or None, tower)
        writer.reshape(each.sent, own, each.read.known_shape or (), tower)
    return sent
