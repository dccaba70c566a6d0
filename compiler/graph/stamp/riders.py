"""Small weights that a worker reads from a server come with rows of a table from there, in one tensor.

A call between two processes takes longer than to copy a few hundred kilobytes, by which small tensors are
joined and parted again. The rows are the first part, which TensorFlow need not copy to part it from the rest:
it begins where the joined tensor does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.graph.stamp.rows import NodeAdder, constant
from compiler.reasons import Placed
from compiler.step.record import SMALL, Role
from compiler.topology import Device

INT32 = tf.int32.as_datatype_enum


@frozen
class Rider:
    """A small weight that comes with rows.

    Attributes:
        weight: The name of the weight.
        read: The name of the op that reads it beside its variable.
        sent: The name of its value in the tower.
        shape: Its shape.
        dtype: Its type, a number of DataType.
        device: The device of the variable.
    """

    weight: str
    read: str
    sent: str
    shape: tuple[int, ...]
    dtype: int
    device: Device

    @property
    def elements(self) -> int:
        """The number of its elements."""
        return prod(self.shape)

    @property
    def is_small(self) -> bool:
        """Whether it is small enough to travel with others."""
        return self.elements * int(tf.as_dtype(self.dtype).size) <= SMALL


@frozen
class Carriage:
    """Writes the nodes by which rows and riders are sent as one tensor.

    Attributes:
        add: Writes a node.
        tower: The place of the tower.
        dtype: The type of all of them, a number of DataType.
    """

    add: NodeAdder
    tower: Placed
    dtype: int

    def carry(
        self, rows: str, row_shape: Sequence[int], riders: Sequence[Rider], placed: Placed, role: Role
    ) -> str:
        """Write the ops that send rows with riders; return the name of the rows in the tower.

        Args:
            rows: The name of the rows beside the table.
            row_shape: The shape of a row.
            riders: What comes with them.
            placed: The place beside the table.
            role: The role of the ops.
        """
        flat = [self._reshaped(f"{rows}/flat", rows, [-1], placed, role)]
        flat += [
            self._reshaped(f"{rows}/with/{each.weight}", each.read, [-1], placed, role) for each in riders
        ]
        axis = constant(self.add, f"{rows}/joined/axis", np.int32(0), placed, role)
        joined = self.add(f"{rows}/joined", "ConcatV2", [*flat, axis], placed, role)
        joined.attr["N"].i, joined.attr["T"].type, joined.attr["Tidx"].type = len(flat), self.dtype, INT32
        left = sum(each.elements for each in riders)
        sent = self._part(f"{rows}/sent", joined.name, slice(None, -left), (-1, *row_shape), role)
        for each in riders:
            begin, left = -left, left - each.elements
            self._part(each.sent, joined.name, slice(begin, -left or None), each.shape, role)
        return sent

    def _part(self, name: str, joined: str, span: slice, shape: Sequence[int], role: Role) -> str:
        """Write a part of the joined tensor, as `span` takes it from a list, in its own shape."""
        words = {"begin": span.start or 0, "end": span.stop or 0, "stride": 1}
        places = [
            constant(self.add, f"{name}/{word}", np.array([value], np.int32), self.tower, role)
            for word, value in words.items()
        ]
        part = self.add(f"{name}/part", "StridedSlice", [joined, *places], self.tower, role)
        part.attr["T"].type, part.attr["Index"].type = self.dtype, INT32
        part.attr["begin_mask"].i, part.attr["end_mask"].i = int(span.start is None), int(span.stop is None)
        return self._reshaped(name, part.name, shape, self.tower, role)

    def _reshaped(self, name: str, value: str, shape: Sequence[int], placed: Placed, role: Role) -> str:
        sizes = constant(self.add, f"{name}/shape", np.array(shape, np.int32), placed, role)
        node = self.add(name, "Reshape", [value, sizes], placed, role)
        node.attr["T"].type, node.attr["Tshape"].type = self.dtype, INT32
        return name
