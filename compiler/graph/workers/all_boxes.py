"""Ops on the mailboxes of many variables, written as nodes at once.

TensorFlow's functions for single ops take most of the time of a large graph, and mailboxes have some ops for
each variable and worker. The nodes are those that `Box` would add one by one, with the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.node_writer import NodeWriter
from compiler.graph.workers.mailboxes import SCOPE, Box
from compiler.step.record import Role

_LARGE = 1000
"""The number of elements from which zeros are made while the graph runs, and are no constant in it."""


def put_all(values: Sequence[tuple[Box, Any]], worker: int) -> list[tf.Operation]:
    """Return the ops that put values into boxes of a worker, as `Box.put` does.

    Boxes for tensors are filled by nodes that are written at once: there is one for each variable.

    Args:
        values: Boxes of one graph, each with the value for it.
        worker: The number of the worker.
    """
    if not values or any(box.sparse for box, _ in values):
        return [op for box, value in values for op in box.put(worker, value)]
    writer = _Writer.of([box for box, _ in values])
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
    if not boxes or any(each.sparse for each in boxes):
        return [op for box in boxes for op in box.clear(workers)]
    writer = _Writer.of(boxes)
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
    if not boxes or weights is not None or any(each.sparse for each in boxes):
        return [each.total(workers, weights) for each in boxes]
    writer = _Writer.of(boxes)
    with tf.name_scope(""):
        names = [writer.add_up(each, workers) for each in boxes]
    return [each.outputs[0] for each in writer.finish(names)]


@define
class _Writer:
    """Nodes for many boxes, with the names that TensorFlow's functions give to such ops."""

    writer: NodeWriter
    written: dict[str, tuple[Box, int]] = field(factory=dict)  # by handle: the box, and its worker

    @classmethod
    def of(cls, boxes: Sequence[Box]) -> _Writer:
        """Return a writer for boxes of the default graph, of which there is at least one."""
        return cls(NodeWriter(tf.compat.v1.get_default_graph(), boxes[0].ledger, "aggregate"))

    def finish(self, names: Sequence[str]) -> list[tf.Operation]:
        """Add the nodes to the graph; return those of some names."""
        self.writer.finish()
        graph = self.writer.graph
        for name, (box, worker) in self.written.items():
            box.keep_handle(worker, graph.get_tensor_by_name(f"{name}:0"))
        return [graph.get_operation_by_name(each) for each in names]

    def add_up(self, box: Box, workers: int) -> str:
        """Write the sum of a box of all workers; return the name of the op."""
        reads = []
        for worker in range(workers):
            name = self._unique(f"{box.scope(worker)}ReadVariableOp")
            node = self._node(box, name, "ReadVariableOp", [self._handle(box, worker)])
            node.attr["dtype"].type = box.dtype.as_datatype_enum
            reads.append(name)
        name = self._unique(f"{SCOPE}/{box.name}/sum")
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
        return self._assign(box, worker, self.writer.given(value))

    def _assign(self, box: Box, worker: int, value: str) -> str:
        handle = self._handle(box, worker)
        name = self._unique(f"{box.scope(worker)}AssignVariableOp")
        return self.writer.assign(name, handle, value, box.dtype, box.placed)

    def _handle(self, box: Box, worker: int) -> str:
        """Return the name of the handle of a box, which is written if it is not in the graph."""
        known = box.known_handle(worker)
        if known is not None:
            return self.writer.given(known)
        name = self._unique(f"{box.scope(worker)}value_box")
        node = self._node(box, name, "VarHandleOp", [], "variable")
        node.attr["dtype"].type = box.dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(tf.TensorShape(box.shape).as_proto())
        node.attr["shared_name"].s = f"{box.scope(worker)}value".encode()
        self.written[name] = box, worker
        return name

    def _zeros(self, box: Box) -> str:
        """Write zeros as `tf.zeros` does; return the name of the op."""
        name, writer, placed = self._unique(f"{SCOPE}/{box.name}/zeros"), self.writer, box.placed
        if prod(box.shape) < _LARGE:
            return writer.constant(name, 0, box.dtype, box.shape, placed)
        rank = (len(box.shape),)
        shape = writer.constant(f"{name}/shape_as_tensor", box.shape, tf.int32, rank, placed)
        zero = writer.constant(f"{name}/Const", 0, box.dtype, (), placed)
        node = self._node(box, name, "Fill", [shape, zero])
        node.attr["T"].type, node.attr["index_type"].type = (
            box.dtype.as_datatype_enum,
            tf.int32.as_datatype_enum,
        )
        return name

    def _node(self, box: Box, name: str, op: str, inputs: Sequence[str], role: Role | None = None) -> Any:
        return self.writer.node(name, op, inputs, box.placed, role)

    def _unique(self, name: str) -> str:
        return str(self.writer.graph.unique_name(name))
