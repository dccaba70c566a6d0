"""Values of a step, tensors or rows of a table: cut into pieces, joined, packed, dealt out and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from attrs import frozen

from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import Rows, Run, Tensor, Value
from compiler.step.writer import Spot, StepWriter


def dense(value: Value | None) -> Tensor:
    """Return a value that is known to be a tensor, and not rows."""
    assert isinstance(value, Tensor)
    return value


def values_of(value: Value) -> Tensor:
    """Return the elements of a value; of rows, without their numbers."""
    return value.values if isinstance(value, Rows) else value


def tensors_of(value: Value) -> list[Tensor]:
    """Return the tensors that a value consists of."""
    return [value.values, value.indices] if isinstance(value, Rows) else [value]


def with_values(value: Value, elements: Tensor) -> Value:
    """Return a value with other elements; rows keep their numbers.

    Args:
        value: The value.
        elements: Its new elements; for rows, those of the rows.
    """
    return Rows(elements, value.indices) if isinstance(value, Rows) else elements


# --- rows of a table --------------------------------------------------------------------------------------


def join_rows(writer: StepWriter, scope: str, values: Sequence[Rows], placed: Placed) -> Rows:
    """Return the rows of all values, one after another.

    Args:
        writer: Writes the ops.
        scope: The scope of their names.
        values: The rows of each.
        placed: The place of the ops.
    """
    if len(values) == 1:
        return values[0]
    return Rows(
        writer.concat(f"{scope}/values", [each.values for each in values], 0, placed),
        writer.concat(f"{scope}/indices", [each.indices for each in values], 0, placed),
    )


def merge_rows(writer: StepWriter, scope: str, values: Sequence[Rows], placed: Placed) -> Rows:
    """Return the sums of those of the rows of all values that have equal numbers, so that these are distinct.

    Args:
        writer: Writes the ops.
        scope: The scope of their names.
        values: The rows of each.
        placed: The place of the ops.
    """
    rows = join_rows(writer, scope, values, placed)
    name = writer.unique(f"{scope}/Unique")
    indices, positions = writer.write("Unique", name, (rows.indices,), placed)
    count = writer.length(scope, indices, placed)
    name = writer.unique(f"{scope}/UnsortedSegmentSum")
    (sums,) = writer.write("UnsortedSegmentSum", name, (rows.values, positions, count), placed)
    return Rows(sums, indices, rows)


def deal_rows(writer: StepWriter, scope: str, rows: Rows, count: int, placed: Placed) -> list[Rows]:
    """Return the rows by the remainders of their numbers.

    Args:
        writer: Writes the ops.
        scope: The scope of their names.
        rows: The rows.
        count: The number of parts.
        placed: The place of the ops.
    """
    dtype = rows.indices.dtype
    own = writer.unique(f"{scope}/Cast")
    divisor = writer.cast(own, writer.constant(f"{own}/x", count, "int32", placed), dtype, placed)
    name = writer.unique(f"{scope}/FloorMod")
    (rest,) = writer.write("FloorMod", name, (rows.indices, divisor), placed)
    rests = writer.cast(f"{scope}/rests", rest, "int32", placed)
    dealt = [
        writer.write(
            "DynamicPartition",
            writer.unique(f"{scope}/{name}"),
            (each, rests),
            placed,
            {"num_partitions": count},
        )
        for name, each in (("values", rows.values), ("indices", rows.indices))
    ]
    return [Rows(*each) for each in zip(*dealt, strict=True)]


# --- pieces, and several values as one --------------------------------------------------------------------


def cut_value(
    writer: StepWriter, scope: str, value: Tensor, shards: Sequence[Shard], placed: Placed
) -> Sequence[Tensor]:
    """Return the pieces of a value that has the shape of a weight.

    Args:
        writer: Writes the ops.
        scope: The scope of their names.
        value: The value.
        shards: The pieces of the weight.
        placed: The place of the ops.
    """
    first = shards[0]
    if first.flat:
        value = writer.reshape(f"{scope}/line", value, first.cut_shape, placed)
    return writer.split(f"{scope}/cut", value, [each.size for each in shards], first.axis, placed)


def take_piece(at: Spot, value: Tensor, shard: Shard) -> Tensor:
    """Return one piece, along the first axis, of a value that has the shape of a weight.

    Args:
        at: Where the ops are written.
        value: The value.
        shard: The piece.
    """
    line = at.writer.reshape(f"{at.scope}/Reshape", value, shard.cut_shape, at.placed)
    return at.writer.part(f"{at.scope}/strided_slice", line, shard.start, shard.stop, at.placed)


def pack(writer: StepWriter, scope: str, values: Sequence[Tensor], placed: Placed) -> Tensor:
    """Return the elements of several values of one type as one line.

    Args:
        writer: Writes the ops.
        scope: The scope of their names.
        values: The values.
        placed: The place of the ops.
    """
    lines = [writer.reshape(f"{scope}/Reshape", value, [-1], placed) for value in values]
    return writer.concat(f"{scope}/packed", lines, 0, placed)


def unpack(
    writer: StepWriter,
    scope: str,
    line: Tensor,
    shapes: Sequence[Sequence[int]],
    placed: Placed,
    names: tuple[str, str] = ("cut", "Reshape"),
) -> list[Tensor]:
    """Return the values, of these shapes, of which `pack` has made a line.

    Args:
        writer: Writes the ops.
        scope: The scope of their names.
        line: The line.
        shapes: The shapes of the values.
        placed: The place of the ops.
        names: The names of what cuts the line, and of the values.
    """
    cut = writer.split(f"{scope}/{names[0]}", line, [prod(each) for each in shapes], 0, placed)
    return [
        writer.reshape(f"{scope}/{names[1]}", piece, shape, placed)
        for piece, shape in zip(cut, shapes, strict=True)
    ]


# --- values that are kept from one run to the next --------------------------------------------------------


@frozen
class StagingArea:
    """A queue on a device for the values of some tensors together.

    Attributes:
        name: The name by which TensorFlow finds it there.
        tensors: What is put in.
        at: Where the ops are written.
    """

    name: str
    tensors: Sequence[Tensor]
    at: Spot

    def put(self, after: Sequence[str] = ()) -> str:
        """Write the op that puts the values in, after other ops; return its name."""
        own = self.at.name("put")
        self.at.waiting(after).writer.write("Stage", own, self.tensors, self.at.placed, self._told)
        return own

    def take(self, after: Sequence[str] = ()) -> list[Tensor]:
        """Write what takes the first values out, after other ops."""
        made, own = [(each.dtype, each.shape) for each in self.tensors], self.at.name("take")
        writer = self.at.waiting(after).writer
        return [*writer.write("Unstage", own, (), self.at.placed, self._told, made=made)]

    def size(self) -> Tensor:
        """Write how many times values have been put in and not taken out."""
        return self.at.op("StageSize", "size", **self._told)[0]

    def clear(self) -> Run:
        """Write the op that empties it."""
        return Run(self.at.run("StageClear", "clear", **self._told))

    @property
    def _told(self) -> Mapping[str, Any]:
        return {"dtypes": [each.dtype for each in self.tensors], "shared_name": self.name}
