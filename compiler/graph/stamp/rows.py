"""The gather of rows of a table, beside the variable that holds them.

Which ops gather depends on how the variable is updated. `ResourceGather` locks the variable and makes
TensorFlow keep it in a mode in which every dense update, and every read of the whole, copies it. That costs
nothing if updates write rows as well, which need this mode anyway. A variable that is updated as a whole is
read instead, which copies nothing, and its rows are gathered from what was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.graph.stamp.sources import WeightSource
from compiler.reasons import Placed
from compiler.step.record import Role

INT32 = tf.int32.as_datatype_enum


class NodeAdder(Protocol):
    """Writes a node, and returns it for its attributes."""

    def __call__(self, name: str, op: str, inputs: Sequence[str], placed: Placed, role: Role) -> Any:
        """Write the node."""


@frozen
class RowTypes:
    """The types of a gather from a table, as numbers of DataType.

    Attributes:
        index: The type of the numbers of the rows.
        row: The type of the rows that towers use.
        cast: A conversion from the type of the table, which is made beside it, or None.
    """

    index: int
    row: int
    cast: Any = None

    @property
    def table(self) -> int:
        """The type of the table."""
        return self.row if self.cast is None else int(self.cast.attr["SrcT"].type)


def write_gather(
    add: NodeAdder,
    name: str,
    source: WeightSource,
    inputs: tuple[str, str],
    types: RowTypes,
    placed: Placed,
    role: Role,
) -> None:
    """Write the gather of some rows of a variable in the type of the table.

    Args:
        add: Writes a node.
        name: The name of the gathered rows.
        source: The variable.
        inputs: The names of its handle, and of the tensor with the numbers of the rows.
        types: The types.
        placed: The place beside the variable.
        role: The role of all ops.
    """
    handle, indices = inputs
    if source.by_rows:
        rows = add(name, "ResourceGather", [handle, indices], placed, role)
        rows.attr["Tindices"].type, rows.attr["dtype"].type = types.index, types.table
        return
    table = add(f"{name}/table", "ReadVariableOp", [handle], placed, role)
    table.attr["dtype"].type = types.table
    first = constant(add, f"{name}/first", np.int32(0), placed, role)  # `axis` may be a constant of the tower
    rows = add(name, "GatherV2", [table.name, indices, first], placed, role)
    rows.attr["Tparams"].type, rows.attr["Tindices"].type = types.table, types.index
    rows.attr["Taxis"].type = INT32


def write_cast(add: NodeAdder, name: str, rows: str, types: RowTypes, placed: Placed, role: Role) -> None:
    """Write the conversion of gathered rows.

    Args:
        add: Writes a node.
        name: The name of the converted rows.
        rows: The name of the rows in the type of the table.
        types: The types, which have a conversion.
        placed: The place of the conversion.
        role: Its role.
    """
    converted = add(name, "Cast", [rows], placed, role)
    for key, value in types.cast.attr.items():
        converted.attr[key].CopyFrom(value)


def constant(add: NodeAdder, name: str, value: Any, placed: Placed, role: Role) -> str:
    """Write a constant with the value of a NumPy array; return its name.

    Args:
        add: Adds a node to the graph.
        name: The name of the constant.
        value: The array.
        placed: The place of the constant.
        role: The role of the op.
    """
    node = add(name, "Const", [], placed, role)
    node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    return name
