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

from compiler.graph.importing import import_nodes
from compiler.graph.ledger import Entry
from compiler.graph.tower.template import Role
from compiler.graph.workers.mailboxes import SCOPE, Box

_LARGE = 1000
"""The number of elements from which zeros are made while the graph runs, and are no constant in it."""


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
