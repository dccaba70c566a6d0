"""Mailboxes: what each worker leaves for the chief in a synchronous step, beside the variables concerned.

Every worker writes its part into boxes of its own, as a whole, as often as it likes. Nothing is added up
before the chief takes it. A worker that writes late, twice or not at all therefore does no harm, the order of
the sum is fixed, and no op ever waits for another worker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import tensorflow as tf
from attrs import define, field, frozen

from compiler.graph.aggregate.parts import join_rows, merge_rows
from compiler.graph.importing import import_nodes
from compiler.graph.ledger import Entry, Ledger
from compiler.graph.tower.template import Role
from compiler.reasons import Placed

SCOPE = "mail"

_LARGE = 1000
"""The number of elements from which zeros are made while the graph runs, and are no constant in it."""

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
        with self.ledger.place(self.placed, "aggregate"), tf.name_scope(f"{SCOPE}/{self.name}/"):
            if self.sparse:
                return merge_rows(join_rows(parts))
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


def put_all(values: Sequence[tuple[Box, Any]], worker: int) -> list[tf.Operation]:
    """Return the ops that put values into boxes of a worker, as `Box.put` does.

    Boxes for tensors are filled by nodes that are written at once: there is one for each variable.

    Args:
        values: Boxes of one graph, each with the value for it.
        worker: The number of the worker.
    """
    if any(box.sparse for box, _ in values):
        return [op for box, value in values for op in box.put(worker, value)]
    writer = _Writer(tf.compat.v1.get_default_graph())
    with tf.name_scope(""):
        names = [writer.fill(box, worker, value) for box, value in values]
    return writer.finish(names)


def clear_all(boxes: Sequence[Box], workers: int) -> list[tf.Operation]:
    """Return the ops that empty some boxes of all workers, as `Box.clear` does.

    Boxes for tensors are emptied by nodes that are written at once: there are several for each variable.

    Args:
        boxes: The boxes, of one graph.
        workers: The number of workers.
    """
    if any(each.sparse for each in boxes):
        return [op for box in boxes for op in box.clear(workers)]
    writer = _Writer(tf.compat.v1.get_default_graph())
    with tf.name_scope(""):
        names = [name for box in boxes for name in writer.empty(box, workers)]
    return writer.finish(names)


def total_all(boxes: Sequence[Box], workers: int, weights: Sequence[tf.Tensor] | None = None) -> list[Any]:
    """Return the sum of the boxes of all workers for each of some boxes, as `Box.total` does.

    Boxes for tensors are added up by nodes that are written at once, if the workers have no weights.

    Args:
        boxes: The boxes, of one graph.
        workers: The number of workers.
        weights: The weight of each worker, or None for ones.
    """
    if weights is not None or any(each.sparse for each in boxes):
        return [each.total(workers, weights) for each in boxes]
    writer = _Writer(tf.compat.v1.get_default_graph())
    with tf.name_scope(""):
        names = [writer.add_up(each, workers) for each in boxes]
    return [each.outputs[0] for each in writer.finish(names)]


@define
class _Writer:
    """Nodes for many boxes, with the names that TensorFlow's functions give to such ops."""

    graph: tf.Graph
    nodes: Any = field(factory=tf.compat.v1.GraphDef)
    outside: dict[str, tf.Tensor] = field(factory=dict)
    written: dict[str, tuple[Box, int]] = field(factory=dict)  # by handle: the box, and its worker

    def finish(self, names: Sequence[str]) -> list[tf.Operation]:
        """Add the nodes to the graph; return those of some names."""
        import_nodes(self.graph, self.nodes, self.outside)
        for name, (box, worker) in self.written.items():
            box.keep_handle(worker, self.graph.get_tensor_by_name(f"{name}:0"))
        return [self.graph.get_operation_by_name(each) for each in names]

    def add_up(self, box: Box, workers: int) -> str:
        """Write the sum of a box of all workers; return the name of the op."""
        reads = []
        for worker in range(workers):
            handle = self._handle(box, worker)
            name = str(self.graph.unique_name(f"{box.scope(worker)}ReadVariableOp"))
            node = self._node(box, name, "ReadVariableOp", [handle])
            node.attr["dtype"].type = box.dtype.as_datatype_enum
            reads.append(name)
        name = str(self.graph.unique_name(f"{SCOPE}/{box.name}/sum"))
        if len(reads) == 1:  # as `tf.add_n` does
            node = self._node(box, name, "Identity", reads)
        else:
            node = self._node(box, name, "AddN", reads)
            node.attr["N"].i = len(reads)
        node.attr["T"].type = box.dtype.as_datatype_enum
        return name

    def empty(self, box: Box, workers: int) -> Iterator[str]:
        """Write what empties a box of all workers; yield the names of the ops that end it."""
        nothing = self._zeros(box)
        for worker in range(workers):
            yield self._assign(box, worker, nothing)

    def fill(self, box: Box, worker: int, value: tf.Tensor) -> str:
        """Write what puts a tensor into a box; return the name of the op."""
        self.outside[value.name] = value
        return self._assign(box, worker, str(value.name).removesuffix(":0"))

    def _assign(self, box: Box, worker: int, value: str) -> str:
        handle = self._handle(box, worker)
        name = str(self.graph.unique_name(f"{box.scope(worker)}AssignVariableOp"))
        node = self._node(box, name, "AssignVariableOp", [handle, value])
        node.attr["dtype"].type = box.dtype.as_datatype_enum
        return name

    def _handle(self, box: Box, worker: int) -> str:
        """Return the name of the handle of a box, which is written if it is not in the graph."""
        known = box.known_handle(worker)
        if known is not None:
            self.outside[known.name] = known
            return str(known.name).removesuffix(":0")
        name = str(self.graph.unique_name(f"{box.scope(worker)}value_box"))
        node = self._node(box, name, "VarHandleOp", [], "variable")
        node.attr["dtype"].type = box.dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(box.shape).as_proto())
        node.attr["shared_name"].s = f"{box.scope(worker)}value".encode()
        self.written[name] = box, worker
        return name

    def _zeros(self, box: Box) -> str:
        """Write zeros as `tf.zeros` does; return the name of the op."""
        name = str(self.graph.unique_name(f"{SCOPE}/{box.name}/zeros"))
        if prod(box.shape) < _LARGE:
            return self._constant(box, name, 0, box.dtype, box.shape)
        shape = self._constant(box, f"{name}/shape_as_tensor", box.shape, tf.int32, (len(box.shape),))
        zero = self._constant(box, f"{name}/Const", 0, box.dtype, ())
        node = self._node(box, name, "Fill", [shape, zero])
        node.attr["T"].type, node.attr["index_type"].type = (
            box.dtype.as_datatype_enum,
            tf.int32.as_datatype_enum,
        )
        return name

    def _constant(self, box: Box, name: str, value: Any, dtype: Any, shape: Sequence[int]) -> str:
        node = self._node(box, name, "Const", [])
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, shape))
        return name

    def _node(self, box: Box, name: str, op: str, inputs: Sequence[str], role: Role = "aggregate") -> Any:
        device = box.ledger.plan.tensorflow_device(box.placed.device)
        node = self.nodes.node.add(name=name, op=op, device=device)
        node.input.extend(inputs)
        box.ledger.enter(name, Entry(box.placed, role))
        return node


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
