"""Rows of a table in a step: joined, summed where their numbers are equal, and dealt out."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.reasons import Placed
from compiler.step.record import Rows
from compiler.step.writer import StepWriter


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


def merge_rows(writer: StepWriter, scope: str, rows: Rows, placed: Placed) -> Rows:
    """Return the sums of rows with equal numbers, so that the numbers are distinct.

    Args:
        writer: Writes the ops.
        scope: The scope of their names.
        rows: The rows.
        placed: The place of the ops.
    """
    name = writer.unique(f"{scope}/Unique")
    indices, positions = writer.write("Unique", name, (rows.indices,), placed)
    count = writer.length(scope, indices, placed)
    name = writer.unique(f"{scope}/UnsortedSegmentSum")
    (values,) = writer.write("UnsortedSegmentSum", name, (rows.values, positions, count), placed)
    return Rows(values, indices, rows)


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
