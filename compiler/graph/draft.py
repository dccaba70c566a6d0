"""A graph while it is written: nodes, and a graph for what TensorFlow's functions write.

Nodes are only collected. TensorFlow gets all of them at once, when the graph is finished. What its functions
write, they write into a graph of their own, in which a *stand-in* takes the place of each node that they use:
an op of the same name that makes tensors of the same types and shapes.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from attrs import define, field

from compiler.graph.adapters.tensorflow_private import (
    keep_python_functions,
    reserve_names,
    set_device,
)
from compiler.graph.importing import import_nodes
from compiler.graph.node_types import output_types
from compiler.step.record import Shape

_SHAPES = "_output_shapes"


@define
class Draft:
    """The nodes of a graph that is being written.

    Attributes:
        graph: The graph for what TensorFlow's functions write.
        stand_ins: The ops in it that stand for nodes, by name.
    """

    graph: tf.Graph = field(factory=tf.Graph, repr=False)
    stand_ins: dict[str, tf.Operation] = field(factory=dict, repr=False)
    _parts: list[tuple[int, Any]] = field(factory=list, repr=False)  # the ops of `graph` before, and nodes
    _nodes: dict[str, Any] = field(factory=dict, repr=False)

    def add(self, nodes: Any) -> None:
        """Add the nodes of a GraphDef, and the functions that they call."""
        self._parts.append((self.graph.num_operations(), nodes))
        self._nodes |= {node.name: node for node in nodes.node}
        reserve_names(self.graph, (node.name for node in nodes.node))

    def node(self, name: str) -> Any:
        """Return the node of a name; None for an op that a function of TensorFlow has written."""
        return self._nodes.get(name)

    def op(self, name: str) -> tf.Operation:
        """Return an op of `graph`: that of a name, or what stands for the node of this name."""
        node = self._nodes.get(name)
        if node is None:
            return self.graph.get_operation_by_name(name)
        found = self.stand_ins.get(name)
        if found is None:
            found = self.stand_ins[name] = self._made_instead(node)
        return found

    def tensor(self, name: str, shape: Shape | None = None) -> tf.Tensor:
        """Return a tensor of `graph`.

        Args:
            name: Its name.
            shape: What is known of its shape, if a node makes it.
        """
        op, _, output = name.partition(":")
        found = self.op(op).outputs[int(output or 0)]
        if op in self._nodes and shape is not None:
            found.set_shape(shape)
        return found

    def unique(self, name: str) -> str:
        """Return a name that nothing has yet: the wanted one, or one with a number after it."""
        if not self.graph.get_name_scope():
            return str(self.graph.unique_name(name))
        with self.graph.name_scope(None):
            return str(self.graph.unique_name(name))

    def mark(self) -> tuple[int, int]:
        """Return how far the graph has been written."""
        return self.graph.num_operations(), len(self._parts)

    def names_since(self, mark: tuple[int, int]) -> frozenset[str]:
        """Return the names of the ops that have been written since a mark was made."""
        ops, parts = mark
        made = {op.name for op in self.graph.get_operations()[ops:]} - self.stand_ins.keys()
        return frozenset(made.union(node.name for _, nodes in self._parts[parts:] for node in nodes.node))

    def finish(self) -> tf.Graph:
        """Return a graph with everything that was written, in the order in which it was."""
        written = self.graph.as_graph_def(add_shapes=True)
        whole = tf.compat.v1.GraphDef(versions=written.versions, library=written.library)
        known = {each.signature.name for each in whole.library.function}
        for node in written.node:
            if node.name in self.stand_ins:
                self._tell_shapes(node)
        begin = 0
        for end, nodes in (*self._parts, (len(written.node), None)):
            whole.node.extend(each for each in written.node[begin:end] if each.name not in self.stand_ins)
            begin = end
            if nodes is not None:
                whole.node.extend(nodes.node)
                new = [each for each in nodes.library.function if each.signature.name not in known]
                known |= {each.signature.name for each in new}
                whole.library.function.extend(new)
        graph = tf.Graph()
        graph.seed = self.graph.seed
        import_nodes(graph, whole, {})
        keep_python_functions(graph, self.graph)
        return graph

    def _tell_shapes(self, stand_in: Any) -> None:
        """Let a node say what is known of its shapes, and is not seen from its inputs: those after a loop."""
        if stand_in.attr[_SHAPES].list.shape:
            self._nodes[stand_in.name].attr[_SHAPES].CopyFrom(stand_in.attr[_SHAPES])

    def _made_instead(self, node: Any) -> tf.Operation:
        """Make an op that stands for a node, whatever scope, device or control inputs others get now."""
        graph, kinds = self.graph, [tf.as_dtype(each) for each in output_types(node)]
        kind, attributes = "NoOp", {}
        if node.op == "VarHandleOp":  # its shape is that of what is read from it
            kind, attributes = node.op, dict(node.attr)
        elif kinds:
            kind = "Unstage"
            attributes["dtypes"] = tf.compat.v1.AttrValue(
                list={"type": [each.as_datatype_enum for each in kinds]}
            )
        with graph.as_default(), graph.device(None), tf.control_dependencies(None):
            found = graph.create_op(kind, [], kinds, name=f"{node.name}/", attrs=attributes)
        set_device(found, node.device)
        return found
