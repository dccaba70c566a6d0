"""How a tower reads a weight that is in pieces: as a whole, or some of its rows.

The whole is read piece by piece, and joined in the tower. For a look-up, the tower finds the distinct rows
that it needs, and asks each piece for those that it has. So a row is sent once, however often it occurs in a
batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from compiler.figures import gathered
from compiler.graph.stamp.sources import CutSource, Rider, carry, gather_rows
from compiler.reasons import Placed
from compiler.shards import Shard
from compiler.step.record import Tensor
from compiler.step.writer import StepWriter


@frozen
class DealtRows:
    """How a look-up has dealt the distinct rows that it needs to the pieces of a table."""

    distinct: Tensor  # the numbers of the distinct rows, in the order in which they first occur
    # For each row that is looked up, its place among those that come: the rows of one piece after those of
    # another, or those of `distinct` if each piece has a part of every row.
    places: Tensor
    asked: tuple[Tensor, ...]  # the numbers, within its piece, of the rows that each piece is asked for


@frozen
class FoundRows:
    """Rows that a tower has looked up in a table in pieces."""

    rows: Tensor
    # The names of the ops that read the variable of each piece, by the number of the piece.
    reads: Mapping[int | None, str]
    dealt: DealtRows


def join(writer: StepWriter, name: str, reads: Sequence[Tensor], like: Shard, tower: Placed) -> Tensor:
    """Write a whole weight, of which the pieces have been read; `like` is one of them."""
    if not like.flat:
        return writer.concat(name, reads, like.axis, tower)
    line = reads[0]  # a variable with fewer elements than clones may be a single part
    if len(reads) > 1:
        line = writer.concat(f"{name}/line", reads, like.axis, tower)
    return writer.reshape(name, line, like.whole, tower)


@frozen
class PieceWriter:
    """Writes the ops that look up rows of a weight in pieces."""

    source: CutSource
    beside: Sequence[Placed]
    tower: Placed
    writer: StepWriter
    riders: Sequence[Rider] = ()  # the small weights that come with rows that the tower looks up

    @property
    def shards(self) -> Sequence[Shard]:
        """The pieces."""
        return self.source.shards

    @property
    def axis(self) -> int:
        """The axis along which the weight is cut."""
        return self.shards[0].axis

    def look_up(self, name: str, indices: Tensor, dtype: str, placed: Placed) -> FoundRows:
        """Write a gather of rows along the first axis.

        Args:
            name: The name of the gathered rows, which have the shape of `indices` and of a row.
            placed: The place of the ops that belong to no piece.
        """
        writer = self.writer
        flat = writer.reshape(f"{name}/flat", indices, [-1], placed)
        distinct, come = writer.write("Unique", f"{name}/distinct", (flat,), placed)
        asked: Sequence[Tensor] = [distinct] * len(self.shards)
        if self.source.deals_rows:
            owner = self._owner(name, distinct, placed)
            asked = self._asked(name, distinct, owner, placed)
            come = self._come(name, distinct, come, owner, placed)
        reads, rows = self._rows(name, asked, dtype)
        joined = writer.concat(f"{name}/joined", rows, self.axis, placed) if len(rows) > 1 else rows[0]
        (shape,) = writer.write("Shape", f"{name}/shape", (indices,), placed)
        like = [("int32", indices.shape)]
        (places,) = writer.write("Reshape", f"{name}/places", (come, shape), placed, made=like)
        found = writer.gather(name, joined, places, placed)
        return FoundRows(found, reads, DealtRows(distinct, come, tuple(asked)))

    def _asked(self, name: str, ids: Tensor, owner: Tensor, placed: Placed) -> Sequence[Tensor]:
        """Write the numbers of the rows that each piece is asked for, counted in it."""
        begins = [each.start for each in self.shards]
        starts = self.writer.constant(f"{name}/starts", begins, ids.dtype, placed)
        start = self.writer.gather(f"{name}/start", starts, owner, placed)
        (local,) = self.writer.write("Sub", f"{name}/local", (ids, start), placed)
        return self._dealt(f"{name}/asked", local, owner, placed)

    def _come(self, name: str, ids: Tensor, places: Tensor, owner: Tensor, placed: Placed) -> Tensor:
        """Write the place of each row that is looked up, if those of one piece come after those of another.

        So the rows that come need not be put into another order, nor those of the gradient that go back.
        """
        writer = self.writer
        (count,) = writer.write("Size", f"{name}/count", (ids,), placed)
        zero, one = (
            writer.constant(f"{name}/{word}", at, "int32", placed) for at, word in enumerate(("zero", "one"))
        )
        (numbers,) = writer.write("Range", f"{name}/numbers", (zero, count, one), placed)
        positions = self._dealt(f"{name}/positions", numbers, owner, placed)
        order = writer.concat(f"{name}/order", positions, self.axis, placed)
        (ranks,) = writer.write("InvertPermutation", f"{name}/ranks", (order,), placed)
        return writer.gather(f"{name}/come", ranks, places, placed)

    def _owner(self, name: str, ids: Tensor, placed: Placed) -> Tensor:
        """Write the number of the piece that has each row.

        It is the first or last piece for a number that no row has, and the gather there refuses it.
        """
        writer, begins = self.writer, [each.start for each in self.shards[1:]]
        later = writer.constant(f"{name}/begins", begins, ids.dtype, placed, (1, len(begins)))
        line = writer.constant(f"{name}/line", [1, -1], "int32", placed)
        (wide,) = writer.write("Reshape", f"{name}/wide", (ids, line), placed)
        (found,) = writer.write("UpperBound", f"{name}/found", (later, wide), placed)
        return writer.reshape(f"{name}/owner", found, [-1], placed)

    def _rows(
        self, name: str, asked: Sequence[Tensor], dtype: str
    ) -> tuple[dict[int | None, str], list[Tensor]]:
        """Write the gather of rows beside each piece; return the names of the gathers, and what is sent."""
        reads: dict[int | None, str] = {}
        found, waiting = [], gathered((each.device, each) for each in self.riders)
        for shard, source, placed, ids in zip(
            self.shards, self.source.sources, self.beside, asked, strict=True
        ):
            own = f"{name}/rows/shard_{shard.number}"
            rows = gather_rows(self.writer, own, source, ids, placed)
            reads[shard.number] = own
            rows = self.writer.cast(f"{own}/converted", rows, dtype, placed)
            riders = waiting.pop(placed.device, [])
            found.append(carry(self.writer, rows, riders, placed, self.tower) if riders else rows)
        return reads, found

    def _dealt(self, name: str, values: Tensor, owner: Tensor, placed: Placed) -> Sequence[Tensor]:
        count = {"num_partitions": len(self.shards)}
        return self.writer.write("DynamicPartition", name, (values, owner), placed, count)
