"""Mailboxes: what each worker leaves for the chief in a synchronous step, beside the variables concerned.

Every worker writes its part into boxes of its own, as a whole, as often as it likes. Nothing is added up
before the chief takes it. A worker that writes late, twice or not at all therefore does no harm, the order of
the sum is fixed, and no op ever waits for another worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import field, frozen

from compiler.reasons import Placed
from compiler.step.record import Rows, Shape, Tensor, Value
from compiler.step.values import dense, merge_rows
from compiler.step.writer import Spot, StepWriter

SCOPE = "mail"


@frozen(eq=False)
class Box:
    """The boxes of all workers for one tensor, or for rows of one table."""

    name: str
    dtype: str
    shape: tuple[int, ...]  # the shape of the tensor, or of the table
    placed: Placed
    writer: StepWriter = field(repr=False)
    sparse: bool = False  # whether rows are sent
    held: str | None = None  # the type of what is in the box, if that has fewer bits than what is taken out
    # The handle of each box that is written: by worker, and by what is in it.
    handles: dict[tuple[int, str], Tensor] = field(factory=dict, init=False, repr=False)

    def put(self, worker: int, value: Value) -> list[str]:
        """Write the ops that put a value, rows or a tensor, into the box of a worker; return their names."""
        if isinstance(value, Tensor):
            return [self._assign(worker, "value", value)]
        indices = self.writer.cast(f"{self._of(worker)}/Cast", value.indices, "int64", self.placed)
        return [self._assign(worker, "rows", value.values), self._assign(worker, "indices", indices)]

    def clear(self, workers: int) -> list[str]:
        """Write the ops that empty the boxes of all workers, with zeros or no rows; return their names."""
        zeros = self._zeros((0, *self.shape[1:]) if self.sparse else self.shape, self.held or self.dtype)
        nothing = Rows(zeros, self._zeros((0,), "int64")) if self.sparse else zeros
        return [name for worker in range(workers) for name in self.put(worker, nothing)]

    def take(self, worker: int, weight: Tensor | None = None, after: Sequence[str] = ()) -> Value:
        """Write what is in a worker's box times a weight.

        If the weight is zero, the result is zero whatever is in the box.

        Args:
            weight: The weight, or None for one.
            after: The names of the ops after which the box is read.
        """
        scope, writer = self._of(worker), self.writer
        if not self.sparse:
            return self._weighted(scope, self._read(worker, "value", after), weight)
        rows, indices = (self._read(worker, part, after) for part in ("rows", "indices"))
        if weight is not None:  # a box that is being written may have rows of one step and indices of another
            lengths = [writer.length(scope, each, self.placed) for each in (rows, indices)]
            (count,) = writer.write("Minimum", writer.unique(f"{scope}/Minimum"), lengths, self.placed)
            cut = (
                writer.first(f"{scope}/strided_slice", each, count, self.placed) for each in (rows, indices)
            )
            rows = self._weighted(scope, next(cut), weight)
            indices = next(cut)
        return Rows(rows, indices)

    def total(
        self, workers: int, weights: Sequence[Tensor] | None = None, after: Sequence[str] = ()
    ) -> Value:
        """Write the sum of all boxes, times the weight of each; rows have distinct indices."""
        factors = [None] * workers if weights is None else weights
        parts = [self.take(worker, factor, after) for worker, factor in enumerate(factors)]
        scope = f"{SCOPE}/{self.name}"
        rows = [each for each in parts if isinstance(each, Rows)]
        if rows:
            return merge_rows(self.writer, scope, rows, self.placed)
        if len(parts) == 1:
            return self.writer.copy(f"{scope}/sum", parts[0], self.placed)
        return self.writer.add(f"{scope}/sum", list(map(dense, parts)), self.placed)

    def _of(self, worker: int) -> str:
        """Return the scope of the names of what is of a worker."""
        return f"{SCOPE}/{self.name}/worker_{worker}"

    def _assign(self, worker: int, part: str, value: Tensor) -> str:
        return self._at(worker).assign(self._handle(worker, part), value)

    def _read(self, worker: int, part: str, after: Sequence[str]) -> Tensor:
        found = self._at(worker).waiting(after).read(self._handle(worker, part))
        if self.held is None or part == "indices":
            return found
        return self.writer.cast(f"{self._of(worker)}/received", found, self.dtype, self.placed)

    def _at(self, worker: int) -> Spot:
        return Spot(self.writer, self._of(worker), self.placed)

    def _handle(self, worker: int, part: str) -> Tensor:
        """Return the handle of a box, which is written if it is not there yet."""
        if (worker, part) not in self.handles:
            name = self.writer.unique(f"{self._of(worker)}/{part}_box")
            dtype = "int64" if part == "indices" else self.held or self.dtype
            # a server may still have the box of a run in which values had another type
            kind = part if dtype in {"int64", self.dtype} else f"{part}_{dtype}"
            holds: Shape = {"rows": (None, *self.shape[1:]), "indices": (None,)}.get(part, self.shape)
            shared = f"{self._of(worker)}/{kind}"
            handle = self.writer.variable(name, dtype, holds, shared, self.placed)
            self.handles[worker, part] = handle
        return self.handles[worker, part]

    def _weighted(self, scope: str, value: Tensor, weight: Tensor | None) -> Tensor:
        if weight is None:
            return value
        at = Spot(self.writer, scope, self.placed)
        (counts,) = at.op("Greater", "Greater", weight, 0)
        times = at.times(value, weight)
        nothing = self.writer.zeros_like(f"{scope}/zeros_like", value, self.placed)
        return at.op("SelectV2", "SelectV2", counts, times, nothing)[0]

    def _zeros(self, shape: Sequence[int], dtype: str) -> Tensor:
        return self.writer.zeros(f"{SCOPE}/{self.name}/zeros", shape, dtype, self.placed)


def sent_rows(boxes: Sequence[Box]) -> Iterator[dict[int, Tensor]]:
    """Yield the handles of the boxes for rows, or for their numbers, by the workers whose they are."""
    for box in boxes:
        for part in ("rows", "indices"):
            found = {worker: handle for (worker, kind), handle in box.handles.items() if kind == part}
            if found:
                yield found
