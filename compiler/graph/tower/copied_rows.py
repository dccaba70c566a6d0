"""Gradients of rows that are copies of each other, found when a tower is traced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from attrs import frozen

from compiler.graph.tower.simplify import Shape

_TYPES = (tf.float32, tf.float64)
"""The types of which rows are added up without copies; sums of others are rounded at other times."""


@frozen
class CopiedRows:
    """Rows of which each comes several times in a row, by tensor names.

    Attributes:
        rows: The rows, of which each is there once.
        times: How often each of them comes.
        divisor: The number by which the copies are divided, or None.
        shape: The shape of the rows, with axes of size one for the copies.
        made_by: The op that makes the copies.
    """

    rows: str
    times: int
    divisor: str | None
    shape: tuple[int, ...]
    made_by: str


def copied_rows(
    values: str, nodes: Mapping[str, Any], shape_of: Callable[[str], Shape | None]
) -> CopiedRows | None:
    """Return the rows of which others are copies, or None if it is not certain that they are copies.

    A mean divides the copies by their number.

    Args:
        values: The tensor of the copies, of shape [n, width].
        nodes: The nodes of the tower by name.
        shape_of: Returns the static shape of a tensor, or None if its rank is unknown.
    """
    made = nodes[values.partition(":")[0]]
    if made.op != "Reshape" or made.attr["T"].type not in [each.as_datatype_enum for each in _TYPES]:
        return None

    def input_of(node: Any, number: int) -> Any:
        return nodes[node.input[number].partition(":")[0]]

    divisor, copies = None, input_of(made, 0)
    if copies.op == "RealDiv" and shape_of(copies.input[1]) == ():
        if input_of(copies, 1).op == "Placeholder":  # a port, which the ops of a tower do not have
            return None
        divisor, copies = copies.input[1], input_of(copies, 0)
    if copies.op != "Tile" or input_of(copies, 1).op != "Const":
        return None
    times = tf.make_ndarray(input_of(copies, 1).attr["value"].tensor)
    shape, of_rows = shape_of(copies.input[0]), shape_of(values)
    sizes = tuple(each for each in shape or () if each is not None)
    if not sizes or sizes != shape or any(each != 1 for each in sizes[1:-1]):
        return None
    if times[0] != 1 or times[-1] != 1 or of_rows is None or of_rows[-1] != sizes[-1]:
        return None
    return CopiedRows(copies.input[0], int(times.prod()), divisor, sizes, copies.name)
