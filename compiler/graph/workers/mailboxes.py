"""Mailboxes: what each worker leaves for the chief in a synchronous step, beside the variables concerned.

Every worker writes its part into boxes of its own, as a whole, as often as it likes. Nothing is added up
before the chief takes it. A worker that writes late, twice or not at all therefore does no harm, the order of
the sum is fixed, and no op ever waits for another worker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from attrs import field, frozen

from compiler.graph.ledger import Ledger
from compiler.graph.rows import sum_rows
from compiler.reasons import Placed

SCOPE = "mail"

_OF_ROWS = re.compile(rf"^{SCOPE}/(.+)/worker_(\d+)/(rows|indices)_box$")


@frozen(eq=False)
class Box:
    """The boxes of all workers for one tensor, or for rows of one table.

    Attributes:
        name: The name of the boxes.
        dtype: The type of the tensor.
        shape: The shape of the tensor, or of the table.
        placed: The place of the boxes.
        ledger: The ledger of the graph.
        sparse: Whether rows are sent.
    """

    name: str
    dtype: Any
    shape: Sequence[int]
    placed: Placed
    ledger: Ledger = field(repr=False)
    sparse: bool = False
    _handles: dict[str, tf.Tensor] = field(factory=dict, init=False, repr=False)

    def put(self, worker: int, value: Any) -> list[tf.Operation]:
        """Return the ops that put a value into the box of a worker.

        Args:
            worker: The number of the worker.
            value: The value: IndexedSlices if the box is for rows, else a tensor.
        """
        with self.ledger.place(self.placed, "aggregate"), tf.name_scope(self.scope(worker)):
            if not self.sparse:
                return [tf.raw_ops.AssignVariableOp(resource=self._handle(worker, "value"), value=value)]
            indices = tf.cast(value.indices, tf.int64)
            return [
                tf.raw_ops.AssignVariableOp(resource=self._handle(worker, "rows"), value=value.values),
                tf.raw_ops.AssignVariableOp(resource=self._handle(worker, "indices"), value=indices),
            ]

    def clear(self, workers: int) -> list[tf.Operation]:
        """Return the ops that empty the boxes of all workers: they hold zeros, or no rows."""
        with self.ledger.place(self.placed, "aggregate"), tf.name_scope(f"{SCOPE}/{self.name}/"):
            nothing: Any = tf.zeros((0, *self.shape[1:]) if self.sparse else self.shape, self.dtype)
            if self.sparse:
                nothing = tf.IndexedSlices(nothing, tf.zeros((0,), tf.int64))
        return [op for worker in range(workers) for op in self.put(worker, nothing)]

    def take(self, worker: int, weight: tf.Tensor | None = None) -> Any:
        """Return the contents of a worker's box times a weight.

        If the weight is zero, the result is zero whatever the contents are.

        Args:
            worker: The number of the worker.
            weight: The weight, or None for one.
        """
        with self.ledger.place(self.placed, "aggregate"), tf.name_scope(self.scope(worker)):
            if not self.sparse:
                return self._weighted(self._read(worker, "value", self.dtype, self.shape), weight)
            rows = self._read(worker, "rows", self.dtype, (None, *self.shape[1:]))
            indices = self._read(worker, "indices", tf.int64, (None,))
            if (
                weight is not None
            ):  # a box that is being written may have rows of one step and indices of another
                count = tf.minimum(tf.shape(rows)[0], tf.shape(indices)[0])
                rows, indices = self._weighted(rows[:count], weight), indices[:count]
            return tf.IndexedSlices(rows, indices)

    def total(self, workers: int, weights: Sequence[tf.Tensor] | None = None) -> Any:
        """Return the sum of all boxes; rows have distinct indices.

        Args:
            workers: The number of workers.
            weights: The weight of each, or None for ones.
        """
        parts = [self.take(worker, None if weights is None else weights[worker]) for worker in range(workers)]
        if self.sparse:
            return sum_rows(self.ledger, parts, f"{SCOPE}/{self.name}", self.placed, "aggregate")
        with self.ledger.place(self.placed, "aggregate"), tf.name_scope(f"{SCOPE}/{self.name}/"):
            return tf.add_n(parts, name="sum")

    def _weighted(self, value: tf.Tensor, weight: tf.Tensor | None) -> tf.Tensor:
        if weight is None:
            return value
        return tf.where(weight > 0, value * tf.cast(weight, value.dtype), tf.zeros_like(value))

    def _read(self, worker: int, part: str, dtype: Any, shape: Sequence[int | None]) -> tf.Tensor:
        value = tf.raw_ops.ReadVariableOp(resource=self._handle(worker, part), dtype=dtype)
        value.set_shape(shape)
        return value

    def known_handle(self, worker: int) -> tf.Tensor | None:
        """Return the handle of the box of a worker for a tensor; None if it is not in the graph yet."""
        return self._handles.get(f"{self.scope(worker)}value")

    def keep_handle(self, worker: int, handle: tf.Tensor) -> None:
        """Note the handle of the box of a worker for a tensor, which is now in the graph.

        Args:
            worker: The number of the worker.
            handle: The handle.
        """
        self._handles[f"{self.scope(worker)}value"] = handle

    def _handle(self, worker: int, part: str) -> tf.Tensor:
        dtype = tf.int64 if part == "indices" else self.dtype
        shape = tf.TensorShape(None) if self.sparse else tf.TensorShape(self.shape)
        name = f"{self.scope(worker)}{part}"
        if name not in self._handles:
            with self.ledger.place(self.placed, "variable"), tf.control_dependencies(None):
                self._handles[name] = tf.raw_ops.VarHandleOp(
                    dtype=dtype, shape=shape, shared_name=name, name=f"{part}_box"
                )
        return self._handles[name]

    def scope(self, worker: int) -> str:
        """Return the scope of the names of what is of a worker, with a slash at its end."""
        return f"{SCOPE}/{self.name}/worker_{worker}/"


def forward_rows(graph: tf.Graph, source: int, target: int) -> list[tf.Operation]:
    """Add ops that copy rows from the boxes of a worker into those of another one, and return them.

    Args:
        graph: A graph with boxes of both. Boxes that it has of one of them only are left alone.
        source: The number of the worker whose boxes have the rows.
        target: The number of the other one; nothing is copied to the worker itself.
    """
    boxes: dict[tuple[str, int], tf.Tensor] = {}
    for op in graph.get_operations():
        named = _OF_ROWS.match(op.name)
        if named is not None:
            boxes[f"{named[1]}/{named[3]}", int(named[2])] = op.outputs[0]
    copies = []
    for (name, worker), box in boxes.items():
        other = boxes.get((name, target))
        if worker == source != target and other is not None:
            rows = tf.raw_ops.ReadVariableOp(resource=box, dtype=box.op.get_attr("dtype"))
            copies.append(tf.raw_ops.AssignVariableOp(resource=other, value=rows))
    return copies
