"""What a tower reads a weight from: a variable, or the variables of its pieces."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import Tensor
from compiler.step.writer import StepWriter
from compiler.topology import Device


@frozen
class WeightSource:
    """A variable as one tower reads it.

    Attributes:
        variable: The variable.
        placed: The place of the variable.
        by_rows: Whether its updates write rows of it, and never the whole.
    """

    variable: Any = field(repr=False)
    placed: Placed
    by_rows: bool = False


@frozen
class CutSource:
    """A variable in pieces, as one tower reads it.

    Attributes:
        shards: The pieces.
        sources: The variable of each piece.
    """

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
