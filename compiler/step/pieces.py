"""Values of a weight in pieces, and small values as one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import Tensor
from compiler.step.writer import Spot, StepWriter


def cut_value(
    writer: StepWriter, scope: str, value: Tensor, shards: Sequence[Shard], placed: Placed
) -> Sequence[Tensor]:
    """Return the pieces of a value that has the shape of a weight."""
    first = shards[0]
    if first.flat:
        value = writer.reshape(f"{scope}/line", value, first.cut_shape, placed)
    return writer.split(f"{scope}/cut", value, [each.size for each in shards], first.axis, placed)


def take_piece(at: Spot, value: Tensor, shard: Shard) -> Tensor:
    """Return one piece, along the first axis, of a value that has the shape of a weight."""
    line = at.writer.reshape(f"{at.scope}/Reshape", value, shard.cut_shape, at.placed)
    return at.writer.part(f"{at.scope}/strided_slice", line, shard.start, shard.stop, at.placed)


def pack(writer: StepWriter, scope: str, values: Sequence[Tensor], placed: Placed) -> Tensor:
    """Return the elements of several values of one type as one line."""
    lines = [writer.reshape(f"{scope}/Reshape", value, [-1], placed) for value in values]
    return writer.concat(f"{scope}/packed", lines, 0, placed)


def unpack(
    writer: StepWriter, scope: str, line: Tensor, shapes: Sequence[Sequence[int]], placed: Placed
) -> list[Tensor]:
    """Return the values, of these shapes, of which `pack` has made a line."""
    cut = writer.split(f"{scope}/cut", line, [prod(each) for each in shapes], 0, placed)
    return [
        writer.reshape(f"{scope}/Reshape", piece, shape, placed)
        for piece, shape in zip(cut, shapes, strict=True)
    ]
