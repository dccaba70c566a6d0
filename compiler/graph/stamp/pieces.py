"""How a tower reads a weight that is in pieces: as a whole, or some of its rows.

The whole is read piece by piece, and joined in the tower. For a look-up, the tower finds the distinct rows
that it needs, and asks each piece for those that it has. So a row is sent once, however often it occurs in a
batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from attrs import frozen

from compiler.graph.draft import Draft
from compiler.graph.stamp.riders import Carriage, Rider
from compiler.graph.stamp.rows import NodeAdder, RowTypes, constant, write_cast, write_gather
from compiler.graph.stamp.sources import CutSource
from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import Role
from compiler.topology import Device

INT32 = tf.int32.as_datatype_enum


@frozen
class DealtRows:
    """How a look-up has dealt the distinct rows that it needs to the pieces of a table.

    Attributes:
        distinct: The numbers of the distinct rows, in the order in which they first occur.
        places: For each row that is looked up, its place among those that come: the rows of one piece after
            those of another, or those of `distinct` if each piece has a part of every row.
        asked: The numbers, within its piece, of the rows that each piece is asked for.
    """

    distinct: tf.Tensor
    places: tf.Tensor
    asked: tuple[tf.Tensor, ...]

    @classmethod
    def of(cls, draft: Draft, name: str, source: CutSource) -> DealtRows:
        """Return that of a look-up which `PieceWriter.look_up` has written.

        Args:
            draft: The graph.
            name: The name of the gathered rows.
            source: The pieces of the table.
        """
        pieces = range(len(source.shards))

        def find(tensor: str) -> tf.Tensor:
            return draft.tensor(tensor, (None,))

        distinct = find(f"{name}/distinct:0")
        if not source.deals_rows:
            return cls(distinct, find(f"{name}/distinct:1"), tuple(distinct for _ in pieces))
        return cls(distinct, find(f"{name}/come:0"), tuple(find(f"{name}/asked:{each}") for each in pieces))


@frozen
class PieceWriter:
    """Writes the nodes that read a weight in pieces.

    Attributes:
        source: The variable of each piece.
        handles: The name of the handle of each piece.
        beside: The place beside each piece.
        tower: The place of the tower.
        add: Writes a node.
        riders: The small weights that come with rows that the tower looks up.
    """

    source: CutSource
    handles: Sequence[str]
    beside: Sequence[Placed]
    tower: Placed
    add: NodeAdder
    riders: Sequence[Rider] = ()

    @property
    def shards(self) -> Sequence[Shard]:
        """The pieces."""
        return self.source.shards

    @property
    def axis(self) -> int:
        """The axis along which the weight is cut."""
        return self.shards[0].axis

    def join(self, name: str, dtype: int) -> str:
        """Write the read of the whole weight; return its name.

        Args:
            name: The name of the joined value.
            dtype: The type of the weight, a number of DataType.
        """
        reads = []
        for shard, handle, placed in zip(self.shards, self.handles, self.beside, strict=True):
            read = self.add(f"{name}/shard_{shard.number}", "ReadVariableOp", [handle], placed, "read")
            read.attr["dtype"].type = dtype
            reads.append(read.name)
        if not self.shards[0].flat:
            return self._concat(name, reads, dtype, self.tower, "read")
        line = reads[0]  # a variable with fewer elements than clones may be a single part
        if len(reads) > 1:
            line = self._concat(f"{name}/line", reads, dtype, self.tower, "read")
        whole = np.array(self.shards[0].whole, np.int32)
        shape = constant(self.add, f"{name}/shape", whole, self.tower, "read")
        return self._reshaped(name, line, shape, dtype, self.tower, "read")

    def look_up(self, name: str, indices: str, types: RowTypes, placed: Placed, role: Role) -> None:
        """Write a gather of rows along the first axis.

        Args:
            name: The name of the gathered rows, which have the shape of `indices` and of a row.
            indices: The name of the tensor with the numbers of the rows.
            types: The types of a gather from the whole weight.
            placed: The place of the ops that belong to no piece.
            role: The role of all ops.
        """
        index, row = types.index, types.row
        flat = self._one_axis(f"{name}/flat", indices, index, placed, role)
        distinct = self.add(f"{name}/distinct", "Unique", [flat], placed, role)
        distinct.attr["T"].type, distinct.attr["out_idx"].type = index, INT32
        asked, come = [distinct.name] * len(self.shards), f"{distinct.name}:1"
        if self.source.deals_rows:
            owner = self._owner(name, distinct.name, index, placed, role)
            asked = self._asked(name, distinct.name, owner, index, placed, role)
            come = self._come(name, distinct.name, owner, index, placed, role)
        rows = self._rows(name, asked, types, role)
        joined = self._concat(f"{name}/joined", rows, row, placed, role) if len(rows) > 1 else rows[0]
        shape = self.add(f"{name}/shape", "Shape", [indices], placed, role)
        shape.attr["T"].type, shape.attr["out_type"].type = index, INT32
        places = self._reshaped(f"{name}/places", come, shape.name, INT32, placed, role)
        self._gathered(name, joined, places, row, placed, role)

    def _asked(self, name: str, ids: str, owner: str, index: int, placed: Placed, role: Role) -> list[str]:
        """Write the numbers of the rows that each piece is asked for, counted in it; return their names."""
        begins = np.array([each.start for each in self.shards], tf.as_dtype(index).as_numpy_dtype)
        starts = constant(self.add, f"{name}/starts", begins, placed, role)
        start = self._gathered(f"{name}/start", starts, owner, index, placed, role)
        local = self.add(f"{name}/local", "Sub", [ids, start], placed, role)
        local.attr["T"].type = index
        return self._dealt(f"{name}/asked", local.name, owner, index, placed, role)

    def _come(self, name: str, ids: str, owner: str, index: int, placed: Placed, role: Role) -> str:
        """Write the place of each row that is looked up, if those of one piece come after those of another.

        So the rows that come need not be put into another order, nor those of the gradient that go back.
        """
        count = self.add(f"{name}/count", "Size", [ids], placed, role)
        count.attr["T"].type, count.attr["out_type"].type = index, INT32
        zero = constant(self.add, f"{name}/zero", np.int32(0), placed, role)
        one = constant(self.add, f"{name}/one", np.int32(1), placed, role)
        numbers = self.add(f"{name}/numbers", "Range", [zero, count.name, one], placed, role)
        numbers.attr["Tidx"].type = INT32
        positions = self._dealt(f"{name}/positions", numbers.name, owner, INT32, placed, role)
        order = self._concat(f"{name}/order", positions, INT32, placed, role)
        ranks = self.add(f"{name}/ranks", "InvertPermutation", [order], placed, role)
        ranks.attr["T"].type = INT32
        return self._gathered(f"{name}/come", ranks.name, f"{ids}:1", INT32, placed, role)

    def _owner(self, name: str, ids: str, index: int, placed: Placed, role: Role) -> str:
        """Write the number of the piece that has each row; return its name.

        It is the first or last piece for a number that no row has, and the gather there refuses it.
        """
        begins = np.array([[each.start for each in self.shards[1:]]], tf.as_dtype(index).as_numpy_dtype)
        later = constant(self.add, f"{name}/begins", begins, placed, role)
        line = constant(self.add, f"{name}/line", np.array([1, -1], np.int32), placed, role)
        wide = self._reshaped(f"{name}/wide", ids, line, index, placed, role)
        found = self.add(f"{name}/found", "UpperBound", [later, wide], placed, role)
        found.attr["T"].type, found.attr["out_type"].type = index, INT32
        return self._one_axis(f"{name}/owner", found.name, INT32, placed, role)

    def _rows(self, name: str, ids: Sequence[str], types: RowTypes, role: Role) -> list[str]:
        """Write the gather of rows beside each piece; return the names of what is sent."""
        found, waiting = [], dict[Device, list[Rider]]()
        for each in self.riders:
            waiting.setdefault(each.device, []).append(each)
        parts = zip(self.shards, self.source.sources, self.handles, self.beside, ids, strict=True)
        for shard, source, handle, placed, asked in parts:
            rows = f"{name}/rows/shard_{shard.number}"
            write_gather(self.add, rows, source, (handle, asked), types, placed, role)
            if types.cast is not None:
                write_cast(self.add, f"{rows}/converted", rows, types, placed, role)
                rows = f"{rows}/converted"
            riders = waiting.pop(placed.device, [])
            if riders:
                carriage = Carriage(self.add, self.tower, types.row)
                rows = carriage.carry(rows, shard.shape[1:], riders, placed, role)
            found.append(rows)
        return found

    # --- small ops ----------------------------------------------------------------------------------------

    def _dealt(self, name: str, values: str, owner: str, dtype: int, placed: Placed, role: Role) -> list[str]:
        """Write the values for each piece; return their names."""
        node = self.add(name, "DynamicPartition", [values, owner], placed, role)
        node.attr["T"].type, node.attr["num_partitions"].i = dtype, len(self.shards)
        return [f"{name}:{each.number}" if each.number else name for each in self.shards]

    def _gathered(self, name: str, values: str, places: str, dtype: int, placed: Placed, role: Role) -> str:
        """Write the gather of values, or rows, at places along the first axis; return its name."""
        first = constant(self.add, f"{name}/first", np.int32(0), placed, role)
        node = self.add(name, "GatherV2", [values, places, first], placed, role)
        node.attr["Tparams"].type, node.attr["Tindices"].type = dtype, INT32
        node.attr["Taxis"].type = INT32
        return name

    def _one_axis(self, name: str, values: str, dtype: int, placed: Placed, role: Role) -> str:
        shape = constant(self.add, f"{name}/shape", np.array([-1], np.int32), placed, role)
        return self._reshaped(name, values, shape, dtype, placed, role)

    def _reshaped(self, name: str, values: str, shape: str, dtype: int, placed: Placed, role: Role) -> str:
        node = self.add(name, "Reshape", [values, shape], placed, role)
        node.attr["T"].type, node.attr["Tshape"].type = dtype, INT32
        return name

    def _concat(self, name: str, values: Sequence[str], dtype: int, placed: Placed, role: Role) -> str:
        axis = constant(self.add, f"{name}/axis", np.int32(self.axis), placed, role)
        node = self.add(name, "ConcatV2", [*values, axis], placed, role)
        node.attr["N"].i, node.attr["T"].type, node.attr["Tidx"].type = len(values), dtype, INT32
        return name
