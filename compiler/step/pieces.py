"""Values of a weight in pieces."""

from __future__ import annotations

from collections.abc import Sequence

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


def join_pieces(
    writer: StepWriter, name: str, pieces: Sequence[Tensor], shards: Sequence[Shard], placed: Placed
) -> Tensor:
    """Return the whole value of which there are pieces."""
    first = shards[0]
    if not first.flat:
        return writer.concat(name, pieces, first.axis, placed)
    # a variable with fewer elements than clones may be a single part
    line = writer.concat(f"{name}/line", pieces, 0, placed) if len(pieces) > 1 else pieces[0]
    return writer.reshape(name, line, first.whole, placed)


def take_piece(at: Spot, value: Tensor, shard: Shard) -> Tensor:
    """Return one piece, along the first axis, of a value that has the shape of a weight."""
    line = at.writer.reshape(f"{at.scope}/Reshape", value, shard.cut_shape, at.placed)
    return at.writer.part(f"{at.scope}/strided_slice", line, shard.start, shard.stop, at.placed)
